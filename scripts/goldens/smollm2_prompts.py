"""The 40 prompts of the SmolLM2 goldens: (name, kind, text or messages)."""


def user(text, system=None):
    first = [{"role": "system", "content": system}] if system else []
    return first + [{"role": "user", "content": text}]


QUICKSORT = """def quicksort(items):
    if len(items) <= 1:
        return items
    pivot = items[len(items) // 2]
    left = [x for x in items if x < pivot]
"""

RING_BUFFER = """#include <array>
#include <cstddef>
#include <optional>

// A ring buffer of fixed capacity. push() fails when it is full, pop() when it is empty.
template <typename T, std::size_t N>
class RingBuffer {
 public:
  bool push(const T& value) {
    if (size_ == N) return false;
    data_[(head_ + size_) % N] = value;
    ++size_;
    return true;
  }

  std::optional<T> pop() {
"""

LIGHTHOUSE = """The keeper of the lighthouse at the end of the long stone pier had not spoken to anyone for \
eleven days. Storms had kept the supply boat in the harbour, and the telephone line had gone down on \
the first night, somewhere between the cliffs and the village. He did not mind the silence. Every \
evening at dusk he climbed the hundred and forty steps, wiped the salt from the great lens, and lit \
the lamp; every morning he climbed them again and put it out. Between those two hours he kept a \
notebook in which he wrote down everything that passed: ships, birds, clouds, and once, in the spring, \
a whale with her calf. On the twelfth day, a little before noon, he saw through the rain a small \
rowing boat with a single passenger, who was waving a yellow scarf. He put down his pen, took the \
rope from its hook by the door, and went out onto the pier. The wind was so strong that he had to \
hold on to the railing with both hands. When the boat was close enough he threw the rope, and the \
stranger caught it at the first attempt. "You are very hard to reach," she said, laughing, and \
climbed up the iron ladder. "I have come to ask you"""

PROMPTS = [
    # raw text
    ("one-token", "raw", "The"),
    ("two-words", "raw", "Once upon"),
    ("story-opening", "raw", "Once upon a time, in a village by the sea, there lived"),
    ("capital", "raw", "The capital of France is"),
    ("gravity", "raw", "Gravity is a fundamental interaction which causes mutual attraction between"),
    ("recipe", "raw", "To make a simple tomato soup, first chop two onions and a clove of garlic. Then"),
    ("history", "raw", "The printing press, invented in Europe around 1440, changed the world because"),
    ("long-story", "raw", LIGHTHOUSE),
    # chat
    ("chat-japan", "chat", user("What is the capital of Japan?")),
    ("chat-hello", "chat", user("Hi!")),
    ("chat-photosynthesis", "chat", user("Explain photosynthesis to a ten-year-old in three sentences.")),
    ("chat-system", "chat", user("Who are you?", "You are a pirate. Answer as a pirate would.")),
    ("chat-turns", "chat", [
        {"role": "user", "content": "My name is Ada and I like chess."},
        {"role": "assistant", "content": "Nice to meet you, Ada! Chess is a wonderful game."},
        {"role": "user", "content": "What is my name, and what do I like?"}]),
    ("chat-summary", "chat", user("Summarize this in one sentence: " + LIGHTHOUSE[:620])),
    ("chat-json", "chat", user('Give me a JSON object with the keys "name" and "age" for a person '
                               "named Bob who is 42.", "You only answer with JSON.")),
    # code
    ("code-python", "code", QUICKSORT),
    ("code-cpp", "code", RING_BUFFER),
    ("code-sql", "code", "SELECT name, COUNT(*) AS orders\nFROM customers\nJOIN orders ON"),
    ("code-html", "code", "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n  <meta charset=\"utf-8\">\n  <title>"),
    ("code-shell", "code", "#!/bin/bash\n# Prints the ten largest files below the current folder.\n"),
    ("code-chat", "code", user("Write a Python function that returns the n-th Fibonacci number.")),
    # Korean
    ("korean-greeting", "korean", "안녕하세요. 저는"),
    ("korean-sentence", "korean", "서울은 대한민국의 수도이며, 가장 큰 도시이다. 한강이"),
    ("korean-chat", "korean", user("대한민국의 수도는 어디입니까?")),
    # emoji
    ("emoji-row", "emoji", "😀😃😄😁😆😅😂🤣"),
    ("emoji-text", "emoji", "I love pizza 🍕 and coffee ☕, but my favourite is 🍦 because"),
    ("emoji-joined", "emoji", "A family 👨‍👩‍👧‍👦, a flag 🇯🇵, a thumb 👍🏽:"),
    # long repetition
    ("repeat-word", "repetition", "buffalo " * 200),
    ("repeat-line", "repetition", "All work and no play makes Jack a dull boy.\n" * 24),
    ("repeat-spaces", "repetition", "a" + " " * 120 + "b" + " " * 60 + "c"),
    # other scripts
    ("script-japanese", "scripts", "吾輩は猫である。名前はまだ無い。"),
    ("script-russian", "scripts", "Все счастливые семьи похожи друг на друга, каждая"),
    ("script-arabic-hindi", "scripts", "السلام عليكم — नमस्ते दुनिया —"),
    ("script-french", "scripts", "Longtemps, je me suis couché de bonne heure. À l'été, près du château,"),
    # lists
    ("list-numbered", "lists", "The planets of the solar system:\n1. Mercury\n2. Venus\n3."),
    ("list-bullets", "lists", "Shopping list:\n- milk\n- eggs\n- bread\n-"),
    ("list-chat", "lists", user("List five animals that live in the ocean.")),
    # maths
    ("maths-sum", "maths", "12 + 30 = 42\n17 + 8 = 25\n9 + 14 ="),
    ("maths-sequence", "maths", "1, 1, 2, 3, 5, 8, 13, 21,"),
    ("maths-chat", "maths", user("A train travels 120 km in 2 hours. What is its average speed?")),
]
