"""./script/tokenize: its head says what it does."""
import sys

from tokens.main import main

sys.exit(main(sys.argv[1:]))
