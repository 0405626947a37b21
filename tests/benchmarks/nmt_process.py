"""`nmt` without its start, for `translation_process`.

Arguments: MODEL PRECISION BEAM_SIZE ALPHA ENGINE [SHORTLIST].
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.translation_process import Translate, serve

from nmt.search.options import SearchOptions
from nmt.translate.lines import Line
from nmt.translate.options import TranslateOptions
from nmt.translate.parallel import Translators
from nmt.translate.setup import Setup


def load(
    model: str, precision: str, beam_size: str, alpha: str, engine: str, shortlist: str = ""
) -> Translate:
    setup = Setup(
        models=(Path(model),),
        options=SearchOptions(
            beam_size=int(beam_size), length_penalty=float(alpha), length_penalty_form="power"
        ),
        shortlist=Path(shortlist) if shortlist else None,
        precision=precision if engine == "torch" else None,
    )
    translators = Translators.start(setup, TranslateOptions(device="cpu"))

    def translate(lines: list[str]) -> list[str]:
        (pool,) = translators.translate([[Line(line) for line in lines]], lambda _: None)
        return [translation.text for translation in pool]

    return translate


if __name__ == "__main__":
    serve(load)
