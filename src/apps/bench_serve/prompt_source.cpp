#include "apps/bench_serve/prompt_source.h"

#include <algorithm>

#include "base/random.h"

namespace quire::bench {
namespace {

constexpr std::string_view kWords =
    "able about above across add after again age air all also always am among an and animal answer "
    "any are area as ask at back bad base be bed been before began best better between big bird "
    "black blue boat body book both box boy bring brought build but by call came can car care "
    "carry "
    "cause center change check child city class clear close cold color come common complete "
    "correct "
    "could country course cover cross cut dark day deep did direct do does dog done door down draw "
    "drive dry during each early earth ease east eat end enough even ever every example eye face "
    "fact fall family far farm fast father feel feet few field figure fill final find fine fire "
    "first fish five fly follow food foot for form found four free friend from front full game "
    "gave "
    "general get girl give go gold gone good got govern grand great green ground group grow had "
    "half "
    "hand happen hard has have he head hear heard heat help her here high him his hold home horse "
    "hot hour house how hundred idea if in inch interest island it just keep kind king knew know "
    "land language large last late laugh lay lead learn leave left less let letter life light like "
    "line list listen little live long look lot love low machine made main make man many map mark "
    "may me mean measure men might mile mind minute miss money moon more morning most mother "
    "mountain "
    "move much music must my name near need never new next night no noon north note nothing notice "
    "now number object of off often oh old on once one only open or order other our out over own "
    "page paper part pass pattern people perhaps person picture piece place plain plan plane plant "
    "play point port pose possible pound power press problem produce product pull put question "
    "quick "
    "rain ran reach read ready real record red remember rest right river road rock room round rule "
    "run said same saw say school science sea second see seem self sentence serve set several "
    "shape "
    "she ship short should show side simple since sing sit six size sleep slow small snow so some "
    "song soon sound south special spell stand star start state stay step still stood stop story "
    "street strong study such sun sure surface table tail take talk teach tell ten test than that "
    "the their them then there these they thing think this those though thought thousand three "
    "through time to together told too took top toward town travel tree true try turn two under "
    "unit until up us use usual verb very voice vowel wait walk want war warm was watch water way "
    "we "
    "week weight well went were west what wheel when where which while white who whole why will "
    "wind "
    "with wonder wood word work world would write year yes yet you young your";

std::vector<std::string_view> split_words() {
  std::vector<std::string_view> words;
  std::string_view rest = kWords;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words;
}

}  // namespace

std::string_view PromptSource::words() { return kWords; }

Prompt PromptSource::draw(std::int64_t length, std::uint64_t stream) const {
  if (!exact()) return draw_text(length, stream);
  TokenIds ids(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = pool_[random_bits(stream, i) % pool_.size()];
  return ids;
}

std::string PromptSource::draw_text(std::int64_t length, std::uint64_t stream) const {
  static const std::vector<std::string_view> kSplit = split_words();
  std::string text;
  for (std::int64_t i = 0; i < length; ++i) {
    if (i > 0) text += ' ';
    text += kSplit[random_bits(stream, static_cast<std::uint64_t>(i)) % kSplit.size()];
  }
  return text;
}

Prompt PromptSource::join(const Prompt& first, const Prompt& second) {
  if (const auto* ids = std::get_if<TokenIds>(&first)) {
    TokenIds joined = *ids;
    const TokenIds& more = std::get<TokenIds>(second);
    joined.insert(joined.end(), more.begin(), more.end());
    return joined;
  }
  return std::get<std::string>(first) + " " + std::get<std::string>(second);
}

}  // namespace quire::bench
