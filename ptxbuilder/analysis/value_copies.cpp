// Finds meets that are copies of a value, because a loop passes the value on unchanged.
#include <algorithm>
#include <unordered_map>

#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {

// Finds copies. A meet is a copy if the meets of its cycle have only one input from outside the cycle,
// because the loop then passes this input on unchanged.
bool Values::find_copies() {
  std::unordered_map<int, size_t> place;  // index of the meet, for each atom
  for (size_t i = 0; i < made_.size(); ++i) place.emplace(made_[i].atom, i);
  auto meet_in = [&](const Sum& sum) -> std::optional<size_t> {
    if (sum.constant != 0 || sum.terms.size() != 1 || sum.terms[0].second != 1) return std::nullopt;
    const auto found = place.find(sum.terms[0].first);
    return found == place.end() || atom(found->first).kind != Atom::Kind::meet ? std::nullopt
                                                                               : std::optional(found->second);
  };
  // Finds the cycles with an explicit stack (Tarjan, Depth-first search and linear graph algorithms, 1972).
  std::vector<int> index(made_.size(), kNone), low(made_.size(), 0), circle_of(made_.size(), kNone);
  std::vector<bool> open(made_.size(), false);
  std::vector<size_t> stack;
  int count = 0;
  bool found = false;
  struct Frame {
    size_t meet, next;
  };
  for (size_t root = 0; root < made_.size(); ++root) {
    if (index[root] != kNone || atom(made_[root].atom).kind != Atom::Kind::meet) continue;
    std::vector<Frame> frames = {{root, 0}};
    while (!frames.empty()) {
      Frame& f = frames.back();
      const size_t m = f.meet;
      if (f.next == 0) {
        index[m] = low[m] = count++;
        stack.push_back(m);
        open[m] = true;
      }
      const std::vector<Sum>& inputs = atom(made_[m].atom).inputs;
      bool deeper = false;
      while (!deeper && f.next < inputs.size()) {  // `f` becomes invalid when the search goes deeper
        const auto other = meet_in(inputs[f.next++]);
        if (!other) continue;
        if (index[*other] == kNone) {
          frames.push_back({*other, 0});
          deeper = true;
        } else if (open[*other]) {
          low[m] = std::min(low[m], index[*other]);
        }
      }
      if (deeper) continue;
      if (inputs.empty()) f.next = 1;
      frames.pop_back();
      if (!frames.empty()) low[frames.back().meet] = std::min(low[frames.back().meet], low[m]);
      if (low[m] != index[m]) continue;
      std::vector<size_t> circle;
      const int circle_number = index[m];
      for (size_t member = made_.size(); member != m;) {
        member = stack.back();
        stack.pop_back();
        open[member] = false;
        circle_of[member] = circle_number;
        circle.push_back(member);
      }
      std::optional<Sum> only;
      Source source = {};
      bool is_copy = true;
      for (size_t member : circle) {
        const Made& made = made_[member];
        const std::vector<Sum>& all = atom(made.atom).inputs;
        for (size_t i = 0; i < all.size(); ++i) {
          const auto other = meet_in(all[i]);
          if (other && circle_of[*other] == circle_number) continue;
          if (only && !(all[i] == *only)) is_copy = false;
          if (made.predecessors[i] == kNone) is_copy = false;  // a register that has not been written
          if (!only) source = {made.predecessors[i], definitions_.meets()[at(made.meet)].reg};
          only = all[i];
        }
      }
      if (!is_copy || !only) continue;
      for (size_t member : circle) copies_[at(made_[member].meet)] = source;
      found = true;
    }
  }
  return found;
}

}  // namespace ptxbuilder::analysis
