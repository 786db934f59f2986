"""Makes a failing configuration as small as it can be while it fails in the same way."""

import copy


def _paths(node, path=()):
    if isinstance(node, dict):
        for key, value in node.items():
            yield path + (key,)
            yield from _paths(value, path + (key,))


def _without(document, path):
    smaller = copy.deepcopy(document)
    node = smaller
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]
    return smaller


def _with(document, path, value):
    changed = copy.deepcopy(document)
    node = changed
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return changed


def shrink(document, fails):
    """Removes keys, then simplifies values, until nothing can go. Precondition: fails(document)."""
    progress = True
    while progress:
        progress = False
        # Deepest last: a whole block goes before its keys are tried one by one.
        for path in list(_paths(document)):
            try:
                smaller = _without(document, path)
            except (KeyError, TypeError):
                continue  # went with its block
            if fails(smaller):
                document, progress = smaller, True
        for path in list(_paths(document)):
            value = document
            for key in path:
                value = value[key]
            if isinstance(value, (dict, list)) and value:
                smaller = _with(document, path, type(value)())
                if fails(smaller):
                    document, progress = smaller, True
                    break
    return document
