// Collects facts about the way in which a tile is stored.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "ptxbuilder/analysis/facts_kernel.h"

namespace ptxbuilder::analysis {

void Facts::find_epilogue() {
  std::set<int> inside(products_.begin(), products_.end());
  if (product_loop_) {
    int outer = product_loop_->loop;
    while (graph_.loops[at(outer)].parent != kNone) outer = graph_.loops[at(outer)].parent;
    if (outer != product_loop_->loop) tile_loop_ = outer;
  }
  auto outside = [&](const std::vector<int>& blocks) {
    Operations rest = operations_of(blocks);
    std::erase_if(rest, [&](int i) { return inside.contains(i); });
    return rest;
  };
  auto stores = [&](const Operations& all) {
    return count(all, [](const Operation& o) { return is_store(o) || (o.is("st") && !o.has("shared")); });
  };
  if (tile_loop_ != kNone) epilogue_ = outside(longest_path(graph_.loops[at(tile_loop_)].blocks));
  if (stores(epilogue_) > 0) return;
  std::vector<int> blocks = graph_.order;
  std::erase_if(blocks, [&](int b) { return role_of(b) == "producer"; });
  epilogue_ = outside(longest_path(blocks));
}

std::vector<int> Facts::longest_path(const std::vector<int>& blocks) const {
  std::vector<bool> chosen(graph_.blocks.size(), false), met = chosen;
  for (int block : blocks) chosen[at(block)] = true;
  std::vector<std::pair<size_t, size_t>> length(graph_.blocks.size());
  std::vector<int> from(graph_.blocks.size(), kNone);
  int last = kNone;
  for (int block : graph_.order) {
    if (!chosen[at(block)]) continue;
    const Block& b = graph_.blocks[at(block)];
    for (int predecessor : b.predecessors)
      if (met[at(predecessor)] &&
          (from[at(block)] == kNone || length[at(predecessor)] > length[at(from[at(block)])]))
        from[at(block)] = predecessor;
    if (from[at(block)] != kNone) length[at(block)] = length[at(from[at(block)])];
    for (int i = b.first; i < b.last; ++i) length[at(block)].first += is_store(operation(i));
    length[at(block)].second += static_cast<size_t>(b.last - b.first);
    met[at(block)] = true;
    if (last == kNone || length[at(block)] > length[at(last)]) last = block;
  }
  std::vector<int> path;
  for (; last != kNone; last = from[at(last)]) path.push_back(last);
  return path;
}

void Facts::epilogue() {
  region("epilogue");
  add_forms(
      Weight::result, "conversions", all_,
      [](const Operation& o) { return o.is("cvt") && o.has("f32") && !o.has("u32") && !o.has("s32"); },
      "another rounding");
  // Instructions of integer divisions, which also use floating point, are excluded.
  Operations floats = epilogue_;
  std::erase_if(floats, [&](int i) {
    for (const Value& v : operation(i).operands)
      if (const Atom* from = values_.only_atom(values_.of(i, v), "cvt"); from && from->name.ends_with(".32"))
        return true;
    return false;
  });
  add_kinds(
      Weight::result, "arithmetic in f32", floats,
      [](const Operation& o) { return o.is("mul", "fma", "add") && o.has("f32", "f32x2"); },
      "a factor or a term that the other does not have, and issue slots");
  add_kinds(
      Weight::result, "into shared memory", epilogue_,
      [](const Operation& o) { return o.is("stmatrix") || (o.is("st") && o.has("shared")); },
      "elements at other places, more instructions for the same result, or bank conflicts");
  add_kinds(Weight::result, "out of shared memory", epilogue_, is_store, "other boxes, or more of them");
  // The numbers are given relative to the number of stores, so that larger boxes count as only one
  // difference.
  const size_t stores = count(epilogue_, is_store);
  for (const auto& [kind, test, effect] :
       {std::tuple("fences", Test([](const Operation& o) { return o.is("fence") && o.has("proxy"); }),
                   "copies that read shared memory before it is written, or unnecessary fences"),
        std::tuple("groups of stores", Test([](const Operation& o) {
                     return o.is("cp") && o.has("bulk") && o.has("commit_group");
                   }),
                   "a wait that does not cover a store")}) {
    const size_t times = count(epilogue_, test);
    add(Weight::result, kind,
        stores == 0       ? std::to_string(times)
        : times == stores ? "one for each store"
                          : fmt::format("{} for {} stores", times, stores),
        effect, line(epilogue_, test));
  }
  std::set<std::string> left;
  const Test waits = [](const Operation& o) { return o.is("cp") && o.has("wait_group"); };
  for (int i : epilogue_)
    if (waits(operation(i))) left.insert(values_.text(operand(i, 0)));
  add(Weight::pipeline, "stores left under way", joined({left.begin(), left.end()}),
      "shared memory that is overwritten while it is read, or stores that are waited for sooner",
      line(epilogue_, waits));
  std::map<std::string, int> meetings;
  const Test meets = [](const Operation& o) { return o.is_barrier() && !o.has("cluster"); };
  for (int i : epilogue_)
    if (meets(operation(i)))
      ++meetings[operation(i).operands.size() > 1
                     ? fmt::format("of {} threads", values_.text(operand(i, 1), 1))
                     : "of all threads"];
  std::vector<std::string> words;
  for (const auto& [who, times] : meetings) words.push_back(fmt::format("{} {}", times, who));
  add(Weight::pipeline, "meetings", joined(words), "waits for more threads, or more waits",
      line(epilogue_, meets));
  size_t woven = 0;
  bool stored = false;
  for (int i : epilogue_) {
    stored |= is_store(operation(i));
    woven += stored && is_product(operation(i));
  }
  add(Weight::pipeline, "products among the stores", std::to_string(woven),
      "tensor cores that idle while a tile is stored",
      line(epilogue_, [](const Operation& o) { return is_product(o); }));
}

}  // namespace ptxbuilder::analysis
