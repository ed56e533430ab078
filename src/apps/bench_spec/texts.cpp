#include "apps/bench_spec/texts.h"

namespace quire {

const std::array<SpecText, 5>& spec_texts() {
  static constexpr std::array<SpecText, 5> kSpecTexts = {{
      {"code edit", R"(Repeat this program in full, with the variable `total` renamed to `sum`:

```python
def read_prices(path):
    prices = {}
    with open(path) as lines:
        for line in lines:
            name, price = line.strip().split(",")
            prices[name] = float(price)
    return prices

def cost_of_order(prices, order):
    total = 0.0
    for name, count in order.items():
        if name not in prices:
            raise KeyError("no price for " + name)
        total = total + prices[name] * count
    return total

def print_bill(prices, order):
    for name, count in order.items():
        print(name, count, prices[name] * count)
    total = cost_of_order(prices, order)
    print("total", total)
```)"},
      {"summary", R"(Summarize this report in a few sentences, in its own words:

The water of the northern lake was measured every week from March to October. In spring the temperature at the surface
rose from four to eleven degrees, and the water was clear down to six meters. From June on, green algae grew in the
shallow bays near the mouth of the river, where the fields of the valley drain into the lake. In August the algae
covered a third of the surface, and the fishermen of the two villages caught half as many perch as in the year before.
After the storms of September the algae sank, and the water was clear again down to four meters. The measurements show
that the growth of algae follows the amount of fertilizer that the river carries into the lake in May and June. The
authors of the report recommend a strip of grass between the fields and the river, and measurements every three days
in the summer.)"},
      {"JSON",
       R"(Write these rows as a JSON array of objects with the keys "id", "name", "city", "year" and "active":

1; Anna Berg; Hamburg; 2019; yes
2; Jonas Feld; Bremen; 2020; no
3; Mira Stein; Hamburg; 2021; yes
4; Paul Wald; Rostock; 2019; yes
5; Lena Bach; Bremen; 2022; no
6; Emil Horn; Rostock; 2021; yes
7; Nora Thal; Hamburg; 2020; yes
8; Ole Brink; Bremen; 2019; no)"},
      {"story",
       R"(Tell a long story about a lighthouse keeper who finds a letter in a bottle. Describe the
sea, the weather and the people of the island, and let something unexpected happen.)"},
      {"random",
       R"(Continue this table of random digits:

526018159083016613186091390996
030824628194821993518190937865
797543231948757491186252760189
555979711471049746507529170342
366712768426846563212233079244
026859952890786666176031372159
010928159013962459571177774121
547280385280841485253888539336)",
       true},
  }};
  return kSpecTexts;
}

}  // namespace quire
