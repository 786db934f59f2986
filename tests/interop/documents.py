"""Texts that may or may not be a configuration: what an Hjson reader makes of them."""

_VALID = '{"train_batch_size": 8, "zero_optimization": {"stage": 2}}'


def _spelt(value):
    """A document with `value`, as written, where any value will do."""
    return '{"train_batch_size": 8, "my_tool": ' + value + '}'


def _sized(value):
    return '{"train_batch_size": ' + value + '}'


def _zero(key, value):
    return ('{"train_batch_size": 8, "zero_optimization": {"stage": 2, "' + key + '": '
            + value + '}}')


_TEXTS = {
    "plain": _VALID,
    "empty": "",
    "blank": " \n\t\r\n",
    "null": "null",
    "a number": "8",
    "a text": '"x"',
    "a list": "[]",
    "a list of objects": "[{}]",
    "an empty object": "{}",
    "cut": _VALID[:-1],
    "cut in a text": '{"train_batch',
    "more after the end": _VALID + " {}",
    "more text after the end": _VALID + " x",
    "a closing brace too many": _VALID + "}",
    "duplicate at the top": '{"train_batch_size": 8, "train_batch_size": 8}',
    "duplicate in a block": '{"train_batch_size": 8, "zero_optimization": {"stage": 1, "stage": 1}}',
    "duplicate in an unknown block": '{"train_batch_size": 8, "my_tool": {"a": 1, "a": 2}}',
    "duplicate in a list": '{"train_batch_size": 8, "my_tool": [{"a": 1, "a": 2}]}',
    "duplicate by an escape": '{"train_batch_size": 8, "my_tool": {"a": 1, "\\u0061": 2}}',
    "keys that differ in case": '{"train_batch_size": 8, "Train_batch_size": 8}',
    "comment to the end of the line //": "{ // why\n" + _VALID[1:],
    "comment to the end of the line #": "{ # why\n" + _VALID[1:],
    "comment in a block": "{ /* why\n so */ " + _VALID[1:],
    "comment before": "// why\n" + _VALID,
    "comment after": _VALID + " # why",
    "comment after, with a line": _VALID + "\n// why\n",
    "comment not closed": "{ /* why " + _VALID[1:],
    "comment between key and value": '{"train_batch_size": /* why */ 8}',
    "comment between key and colon": '{"train_batch_size" /* why */ : 8}',
    "comment right after a number": '{"train_batch_size": 8// why\n}',
    "hash right after a number": '{"train_batch_size": 8# why\n}',
    "comment after a number and a blank": '{"train_batch_size": 8 // why\n}',
    "hash after a number and a blank": '{"train_batch_size": 8 # why\n, "my_tool": 1}',
    "comment before a comma": '{"train_batch_size": 8 /* why */, "my_tool": 1}',
    "comment after a literal": '{"train_batch_size": 8, "my_tool": true // why\n}',
    "comment after null": '{"train_batch_size": 8, "my_tool": null # why\n}',
    "comment in a list": '{"train_batch_size": 8, "my_tool": [1, // why\n 2]}',
    "comment in an empty list": '{"train_batch_size": 8, "my_tool": [ # why\n]}',
    "comment with a quote": '{ // it\'s "why\n' + _VALID[1:],
    "comment with a brace": "{ // }\n" + _VALID[1:],
    "comment signs in a text": _spelt('"// # /* */"'),
    "comment sign after an escaped quote": _spelt('"a\\" // b"'),
    "block comment that looks nested": "{ /* a /* b */ " + _VALID[1:],
    "block comment of three characters": "{ /*/ " + _VALID[1:],
    "carriage returns": _VALID.replace(" ", "\r\n"),
    "comment ended by a carriage return": "{ // why\r" + _VALID[1:],
    "hash ended by a carriage return": '{"train_batch_size": 8, # why\r "my_tool": 1}',
    "trailing comma": '{"train_batch_size": 8,}',
    "trailing comma in a list": _spelt("[1, 2,]"),
    "leading comma": '{,"train_batch_size": 8}',
    "two commas": '{"train_batch_size": 8,, "my_tool": 1}',
    "no comma": '{"train_batch_size": 8 "my_tool": 1}',
    "no comma but a line": '{"train_batch_size": 8\n"my_tool": 1}',
    "no colon": '{"train_batch_size" 8}',
    "no value": '{"train_batch_size": }',
    "key without quotes": "{train_batch_size: 8}",
    "text without quotes": '{"train_batch_size": 8, "my_tool": a word\n}',
    "key in single quotes": "{'train_batch_size': 8}",
    "text in single quotes": _spelt("'x'"),
    "text in three quotes": _spelt("'''x\ny'''"),
    "no braces": '"train_batch_size": 8',
    "no braces, no quotes": "train_batch_size: 8",
    "NaN": _spelt("NaN"), "Infinity": _spelt("Infinity"), "-Infinity": _spelt("-Infinity"),
    "NaN for a batch size": _sized("NaN"),
    "True": _spelt("True"), "None": _spelt("None"), "TRUE": _spelt("TRUE"),
    "leading zero": _sized("08"), "plus": _sized("+8"), "hexadecimal": _sized("0x8"),
    "point first": _spelt(".5"), "point last": _spelt("5."), "two points": _spelt("1.2.3"),
    "minus alone": _spelt("-"), "minus zero": _spelt("-0"), "minus zero point": _spelt("-0.0"),
    "exponent": _sized("8e0"), "capital exponent": _sized("8E0"), "exponent plus": _sized("8e+0"),
    "exponent minus": _sized("80e-1"), "exponent without digits": _spelt("1e"),
    "fraction": _sized("8.0"), "fraction that is none": _sized("8.000000000000000000001"),
    "number that overflows": _spelt("1e400"), "batch size that overflows": _sized("1e400"),
    "number that underflows": _spelt("1e-400"),
    "batch size of 20 digits": _sized("10000000000000000000"),
    "batch size of 10 digits": _sized("8000000000"),
    "batch size of 400 digits": _sized("8" * 400),
    "batch size of 4300 digits": _sized("8" * 4300),
    "batch size of 4301 digits": _sized("8" * 4301),
    "negative number of 4300 digits": _spelt("-" + "8" * 4300),
    "batch sizes of 400 digits that differ":
        '{"train_batch_size": ' + "8" * 400 + ', "gradient_accumulation_steps": 3}',
    "batch size of 400 digits and a fraction":
        '{"train_batch_size": ' + "8" * 400 + ', "train_micro_batch_size_per_gpu": 2.5}',
    "fraction of 400 digits": '{"train_batch_size": 8, "gradient_clipping": ' + "8" * 400 + "}",
    "bucket of 400 digits": _zero("reduce_bucket_size", "8" * 400),
    "bucket of 400 digits in quotes": _zero("reduce_bucket_size", '"' + "8" * 400 + '"'),
    "share of 400 digits": _zero("offload_optimizer", '{"ratio": ' + "8" * 400 + "}"),
    "share of 400 digits in quotes": _zero("offload_optimizer", '{"ratio": "' + "8" * 400 + '"}'),
    "share that underflows": _zero("offload_optimizer", '{"ratio": 1e-400}'),
    "share that underflows in quotes": _zero("offload_optimizer", '{"ratio": "1e-400"}'),
    "share that overflows in quotes": _zero("offload_optimizer", '{"ratio": "1e400"}'),
    "batch size that underflows": _sized("1e-400"),
    "escapes": _spelt('"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041"'),
    "unknown escape": _spelt('"\\x"'), "cut escape": _spelt('"\\u12"'),
    "escaped NUL": _spelt('"\\u0000"'),
    "surrogates": _spelt('"\\ud83d\\ude00"'), "lone surrogate": _spelt('"\\ud83d"'),
    "second surrogate alone": _spelt('"\\ude00"'),
    "first surrogate twice": _spelt('"\\ud83d\\ud83d\\ude00"'),
    "half a pair in a key": '{"train_batch_size": 8, "zero_optimization": {"\\ud83d": 1}}',
    "duplicate half pairs": '{"train_batch_size": 8, "\\ud83d": 1, "\\uD83D": 1}',
    "newline in a text": _spelt('"a\nb"'), "tab in a text": _spelt('"a\tb"'),
    "not ASCII": _spelt('"é 漢 😀"'), "not ASCII without quotes": _spelt("é"),
    "empty key": '{"train_batch_size": 8, "": 1}',
    "key with a blank": '{"train_batch_size": 8, "a b": 1}',
    "key with a newline": '{"train_batch_size": 8, "a\\nb": 1}',
    "key with a colon": '{"train_batch_size": 8, "a:b": {"c,d": "e}"}}',
    "deep": _spelt("[" * 50 + "]" * 50),
    "non-breaking blank": '{"train_batch_size":\u00a08}',
    "form feed": '{"train_batch_size":\f8}',
}


def samples():
    """(name, bytes) pairs."""
    texts = [(name, text.encode()) for name, text in _TEXTS.items()]
    valid = _VALID.encode()
    return texts + [
        ("byte order mark", b"\xef\xbb\xbf" + valid),
        ("UTF-16", _VALID.encode("utf-16")),
        ("invalid UTF-8 in a text", _spelt('"X"').encode().replace(b"X", b"\xff")),
        ("invalid UTF-8 in a comment", b"{ // \xff\n" + valid[1:]),
        ("NUL", b"\x00" + valid),
        ("NUL at the end", valid + b"\x00"),
        ("control character in a text", _spelt('"X"').encode().replace(b"X", b"\x01")),
        ("control character between", b"\x01" + valid),
    ]
