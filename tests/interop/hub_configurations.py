"""hub_configurations.py FILE FOLDER: writes each configuration of tests/data/hub_models.json to a file of its own."""
import json
import pathlib
import sys


def main() -> None:
    models = json.loads(pathlib.Path(sys.argv[1]).read_text())
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for model in models:
        (folder / f"{model['name']}.json").write_text(json.dumps(model["config"]))


main()
