"""Install a package, and translate the lines of stdin by argostranslate: PACKAGE.

It runs in an environment that has argostranslate.
"""

import sys

from argostranslate import package, sbd, translate

# The splitter would download a model; each line here is a sentence.
sbd.MiniSBDSentencizer.split_sentences = lambda _, text: [text]
package.install_from_path(sys.argv[1])
translation = translate.get_translation_from_codes("en", "de")
for line in sys.stdin:
    print(translation.translate(line.rstrip("\n")))
