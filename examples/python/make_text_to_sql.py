"""Makes text_to_sql.jsonl: 300 prompts, each a table's definition and a question to turn into SQL.

    python3 examples/python/make_text_to_sql.py [--check]

Tables and questions are made up here, by rules, so the same file comes out each time.
"""

import itertools
import json
import pathlib
import sys

TABLES = {
    "books": ("title TEXT, author TEXT, year INTEGER, price REAL", "title", "price", "author",
              ["Austen", "Joyce", "Stoker"]),
    "employees": ("name TEXT, department TEXT, hired INTEGER, salary REAL", "name", "salary", "department",
                  ["Sales", "Legal", "Support"]),
    "flights": ("code TEXT, airline TEXT, departs INTEGER, seats INTEGER", "code", "seats", "airline",
                ["Iberia", "Finnair", "Delta"]),
    "songs": ("title TEXT, artist TEXT, year INTEGER, seconds INTEGER", "title", "seconds", "artist",
              ["Prince", "Abba", "Queen"]),
    "houses": ("address TEXT, city TEXT, built INTEGER, rooms INTEGER", "address", "rooms", "city",
               ["Oslo", "Lyon", "Turin"]),
    "players": ("name TEXT, team TEXT, born INTEGER, goals INTEGER", "name", "goals", "team",
                ["Reds", "Blues", "Lions"]),
    "orders": ("item TEXT, customer TEXT, day INTEGER, total REAL", "item", "total", "customer",
               ["Smith", "Mori", "Rossi"]),
    "rivers": ("name TEXT, country TEXT, bridges INTEGER, length INTEGER", "name", "length", "country",
               ["France", "Peru", "Egypt"]),
    "courses": ("name TEXT, teacher TEXT, hours INTEGER, students INTEGER", "name", "students", "teacher",
                ["Lee", "Novak", "Silva"]),
    "films": ("title TEXT, director TEXT, year INTEGER, minutes INTEGER", "title", "minutes", "director",
              ["Varda", "Lang", "Kurosawa"]),
}
WITH_VALUE = [
    "Which {plural} have {group} {value}?",
    "How many {plural} have {group} {value}?",
    "What is the average {number} of {plural} with {group} {value}?",
    "What is the largest {number} of {plural} with {group} {value}?",
    "Show the {name} and {number} of {plural} with {group} {value}.",
    "Which {plural} with {group} {value} have a {number} above 20?",
    "What is the sum of {number} of {plural} with {group} {value}?",
    "Show {plural} with {group} {value} in the order of {number}.",
]
PLAIN = [
    "How many {plural} are there?",
    "What is the largest {number} of all {plural}?",
    "How many {plural} are there for each {group}?",
    "Which {plural} have the smallest {number}?",
    "Show the {name} of all {plural} in the order of {number}.",
    "What is the average {number} for each {group}?",
]
PROMPT = """CREATE TABLE {table} ({columns});

-- Write one SQL query for each question.
-- Show everything.
SELECT * FROM {table};

-- {question}
SELECT"""


def prompts() -> list[dict[str, str]]:
    made: list[dict[str, str]] = []
    for table, (columns, name, number, group, values) in TABLES.items():
        words = {"plural": table, "name": name, "number": number, "group": group}
        questions = [form.format(**words) for form in PLAIN]
        questions += [
            form.format(**words, value=value) for form, value in itertools.product(WITH_VALUE, values)
        ]
        for question in questions:
            prompt = PROMPT.format(table=table, columns=columns, question=question)
            made.append({"id": f"{table}-{len(made)}", "prompt": prompt})
    return made


def main() -> int:
    path = pathlib.Path(__file__).parent / "text_to_sql.jsonl"
    text = "".join(json.dumps(each) + "\n" for each in prompts())
    if sys.argv[1:] == ["--check"]:
        return int(path.read_text(encoding="utf-8") != text)
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
