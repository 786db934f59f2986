"""Run by script/describe-model, in the environment of script/python-environment."""
import sys

from describe_model import main

if __name__ == "__main__":
    sys.exit(main.main(sys.argv[1:]))
