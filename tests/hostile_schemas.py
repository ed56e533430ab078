"""Schemas that want to take all time and memory: by name, as the text of a JSON object."""

import json

SMALL = {"type": "boolean"}


def nested(depth):
    return '{"items": ' * depth + "true" + "}" * depth


HOSTILE = {name: schema if isinstance(schema, str) else json.dumps(schema) for name, schema in {
    "exponential oneOf": {"allOf": [{"oneOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]},
                                               {"properties": {f"c{i}": {"minimum": i}}}]} for i in range(40)]},
    "not of anyOf of allOf": {"not": {"anyOf": [{"allOf": [{"required": [f"x{i}", f"y{j}"]} for j in range(12)]}
                                                for i in range(40)]}},
    "deep nesting": nested(200),
    "recursion with nothing between": {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]},
                                                                      "b": {"allOf": [{"$ref": "#/$defs/a"}]}}},
    "recursion without an end": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}},
    "huge enum": {"enum": [f"value {i * 7919 % 1000003}" for i in range(200_000)]},
    "enum of objects": {"enum": [{"k": i, "v": [i, str(i)]} for i in range(20_000)]},
    "catastrophic regex": {"type": "string", "pattern": "^(a|b|ab)*c(a|b){200}(x+x+)+y$"},
    "exponential regex": {"type": "string", "pattern": "^(a|b)*a(a|b){40}$"},
    "large counts": {"type": "string", "pattern": "^((.{1,90}){1,90}){1,90}$", "maxLength": 900_000},
    "many patterns": {"patternProperties": {f"^(?:.*{chr(97 + i)}){{3}}": SMALL for i in range(24)}},
    "all names": {"type": "object", "minProperties": 500, "properties": {f"n{i}": SMALL for i in range(1000)}},
    "unevaluated": {"anyOf": [{"properties": {f"p{i}": SMALL}} for i in range(60)], "unevaluatedProperties": False},
    "multiples": {"allOf": [{"multipleOf": n} for n in (4093, 4091, 4079, 4073)]},
    "many multiples": {"allOf": [{"anyOf": [{"multipleOf": 1409}, {"multipleOf": 700 + i}]} for i in range(400)]},
    "many bounds and multiples": {"not": {"enum": [i / 7 for i in range(20_000)]},
                                  "anyOf": [{"multipleOf": 1409}, {"multipleOf": 0.1373}]},
    "many contains": {"allOf": [{"contains": {"const": i}, "maxContains": 90} for i in range(4)]},
    "10 MB": {"enum": ["x" * 1000 + str(i) for i in range(10_000)]},
}.items()}
