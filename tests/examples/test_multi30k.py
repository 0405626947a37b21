"""What `make` of examples/multi30k prints, given translations."""

from pathlib import Path

from command_line import write
from example_runs import made, needs_make

TESTS = ("test_2016_flickr", "test_2017_flickr")
REFERENCE = ["Ein Mann, der schläft.", "Zwei Hunde spielen im grünen Gras."]


@needs_make
def test_the_recipe_ends_with_the_card_and_seeds_with_its_means(tmp_path: Path) -> None:
    data = tmp_path / "data-en-de"
    data.mkdir()
    (data / "dataset.json").touch()
    for test in TESTS:
        write(data / f"test-{test}.de", REFERENCE)
    for seed, word in ((1, "grünen"), (2, "roten")):
        run = tmp_path / f"transformer_low_resource-en-de-seed{seed}"
        run.mkdir()
        (run / "finished").touch()
        for test in TESTS:
            write(run / f"{test}.de", [line.replace("grünen", word) for line in REFERENCE])
    printed = made("multi30k", "seeds", f"WORK={tmp_path}", f"NMT_DATA={tmp_path}")
    assert printed.count("\nlower-cased tokenised BLEU\t100.00\t") == len(TESTS)
    means = [line for line in printed.splitlines() if ": mean " in line]
    assert len(means) == 5 * len(TESTS)
    # 12 of 13 tokens match, of pairs 9 of 11, of threes 6 of 9, and of fours 4 of 7.
    mean = (100 + 100 * (12 / 13 * 9 / 11 * 6 / 9 * 4 / 7) ** 0.25) / 2
    assert means[0] == f"en-de {TESTS[0]}: mean BLEU of 2 seeds {mean:.2f}"
    assert means[4] == f"en-de {TESTS[0]}: mean lower-cased tokenised BLEU of 2 seeds {mean:.2f}"
