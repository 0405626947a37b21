#!/usr/bin/env bash
# Babel 2.17.0: the check of format strings, which `pybabel compile` runs.
#
# Expected: a translation of `%(count)d of %(total)d` without one of the two is reported, as one of
# `%d of %d` without one is, and as `msgfmt --check-format` reports both.
#
# Seen: a lost `%d` is reported. A lost name is not, neither one of two nor all of them. A name that
# the source does not have is.
#
# What it means: projects that compile with Babel ship translations without their numbers.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet Babel==2.17.0

"$folder/venv/bin/python" - <<'PYTHON'
from babel.messages.catalog import Catalog

named = "%(count)d of %(total)d"
for source, translation, is_reported in [
    ("%d of %d", "%d of all", True),
    (named, "%(count)d of %(sum)d", True),
    (named, "%(count)d of all", False),
    (named, "all of them", False),
]:
    catalogue = Catalog(locale="de")
    message = catalogue.add(source, translation, flags={"python-format"})
    errors = [str(error) for error in message.check(catalogue)]
    print(source, "|", translation, "|", errors)
    assert bool(errors) == is_reported, "changed"
PYTHON
