#!/usr/bin/env python3
"""Text to SQL: a model writes a query for a question, SQLite runs it.

Two examples in the prompt show the form; the answer ends at the query's semicolon. The database is in memory and
the connection only reads, because a query that a model wrote is input like any other: it may be wrong.
"""

import sqlite3

import openai

from common import arguments

SCHEMA = """CREATE TABLE books (title TEXT, author TEXT, year INTEGER, price REAL, sold INTEGER);"""
BOOKS = [("Emma", "Austen", 1815, 9.5, 120), ("Persuasion", "Austen", 1817, 8.0, 75),
         ("Dracula", "Stoker", 1897, 11.0, 210), ("Ulysses", "Joyce", 1922, 14.5, 40),
         ("Dubliners", "Joyce", 1914, 10.0, 60)]
PROMPT = """{schema}

-- How many books are there?
SELECT COUNT(*) FROM books;

-- Which books are by Stoker?
SELECT title FROM books WHERE author = 'Stoker';

-- {question}
SELECT"""
QUESTIONS = ["Which books are by Joyce?", "Which books cost less than 10?",
             "Which books were sold more than 100 times?", "Who wrote Emma?", "What does Dracula cost?"]

parser = arguments(__doc__)
parser.add_argument("questions", nargs="*", default=QUESTIONS)
args = parser.parse_args()
client = openai.OpenAI(base_url=args.base_url, api_key=args.api_key)
model = args.model or client.models.list().data[0].id

database = sqlite3.connect(":memory:")
database.execute(SCHEMA)
database.executemany("INSERT INTO books VALUES (?, ?, ?, ?, ?)", BOOKS)
database.execute("PRAGMA query_only = ON")

for question in args.questions:
    answer = client.completions.create(model=model, prompt=PROMPT.format(schema=SCHEMA, question=question),
                                       max_tokens=48, temperature=0, stop=[";", "\n\n"])
    query = "SELECT" + answer.choices[0].text
    print(f"question: {question}\nquery: {query}")
    try:
        rows = database.execute(query).fetchall()
    except sqlite3.Error as error:
        print(f"error: {error}\n")
        continue
    print(f"rows: {', '.join(' '.join(map(str, row)) for row in rows) or 'none'}\n")
