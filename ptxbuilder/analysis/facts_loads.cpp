// Collects facts about the ring, and about the loop that loads its stages.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "ptxbuilder/analysis/facts_kernel.h"

namespace ptxbuilder::analysis {
namespace {

// Describes an L2 policy (PTX ISA, createpolicy), in terms of the constants that CUTLASS and other libraries
// use.
std::string policy(const Sum& sum) {
  if (!sum.is_constant()) return "a computed policy";
  switch (static_cast<uint64_t>(sum.constant)) {
    case 0x1000000000000000:
      return "evict_normal, which is the default";
    case 0x12f0000000000000:
      return "evict_first";
    case 0x14f0000000000000:
      return "evict_last";
    default:
      return fmt::format("{:#x}", static_cast<uint64_t>(sum.constant));
  }
}

}  // namespace

const Atom* Facts::stage_in(const Sum& address) const {
  for (const auto& [number, factor] : address.terms)
    if (const Atom& a = values_.atom(number); a.kind == Atom::Kind::stage) return &a;
  return nullptr;
}

void Facts::ring() {
  region("ring");
  const BarrierArray *full = barrier("full"), *empty = barrier("empty");
  add(Weight::pipeline, "stages", full ? std::to_string(full->count) : "none",
      "how many loads are ahead of the products");
  std::set<int64_t> of_loads, of_products;  // numbers of stages in the rings of loads and products
  const Operations bulk_loads = find_bulk_loads();
  for (int i : bulk_loads)
    if (const Atom* stage = stage_in(operand(i, 0))) of_loads.insert(stage->inputs[1].constant);
  for (int i : products_)
    if (operation(i).is_wgmma())
      if (const auto d = decode_descriptor(values_, operand(i, 2)))
        if (const Atom* stage = stage_in(d->address)) of_products.insert(stage->inputs[1].constant);
  add(Weight::result, "loads use the same number of stages as products",
      of_loads == of_products || of_products.empty()
          ? "yes"
          : fmt::format("no: {} for loads and {} for products", fmt::join(of_loads, " or "),
                        fmt::join(of_products, " or ")),
      "loads into stages other than those that are read");
  std::vector<std::string> bytes;
  for (int i : bulk_loads)
    for (const auto& [number, factor] : operand(i, 0).terms)
      if (values_.atom(number).kind == Atom::Kind::stage) bytes.push_back(fmt::format("{} B", factor));
  add(Weight::result, "from a stage to the next", joined(bytes), "another tile",
      line(loads_, &Operation::is_bulk_load));
  std::vector<std::string> expected;
  uint32_t expected_at = 0;
  bool by_parameter = true;
  if (full)
    for (const BarrierUse& use : full->uses)
      if (use.kind == BarrierUse::Kind::expects) {
        by_parameter &= values_.only_atom(use.amount, "ld") != nullptr;
        expected.push_back(use.amount.is_constant()              ? fmt::format("{} B", use.amount.constant)
                           : values_.only_atom(use.amount, "ld") ? "what a parameter says"
                                                                 : "what is computed");
        expected_at = operation(use.operation).at.line;
      }
  add(by_parameter ? Weight::detail : Weight::protocol, "bytes expected", joined(expected),
      by_parameter ? "another number, if the parameter holds one" : "a phase that ends too early, or never",
      expected_at);
  for (const auto& [array, kind] :
       {std::pair(full, "arrivals that fill a stage"), std::pair(empty, "arrivals that free a stage")})
    add(Weight::protocol, kind,
        !array            ? "none"
        : array->arrivals ? std::to_string(*array->arrivals)
                          : "unknown",
        "a phase that ends too early, or never, unless the number of arriving threads matches; more arrivals "
        "cost more messages");
  std::set<std::string> first;
  uint32_t waits_at = 0;
  for (int i : loads_)
    if (is_wait(operation(i))) first.insert(first_parity(i)), waits_at = operation(i).at.line;
  add(Weight::protocol, "the producer's first parity", joined({first.begin(), first.end()}),
      "a wait that passes at once, or never", waits_at);
  std::set<std::string> forms;
  for (int i : both_loops()) {
    const Operation& o = operation(i);
    if (!is_wait(o)) continue;
    const bool hinted = o.operands.size() > 3;
    forms.insert(plain(o) + (hinted ? fmt::format(", at most {} ns", values_.text(operand(i, 3), 1)) : ""));
  }
  add(Weight::detail, "waits of the loops", joined({forms.begin(), forms.end()}),
      "how long a thread sleeps between two tests");
}

Facts::Operations Facts::both_loops() const {
  Operations both = loads_;
  both.insert(both.end(), products_.begin(), products_.end());
  std::sort(both.begin(), both.end());
  both.erase(std::unique(both.begin(), both.end()), both.end());
  return both;
}

std::string Facts::first_parity(int i) {
  Sum parity;
  for (size_t n = 0; n + 1 < operation(i).operands.size(); ++n)
    if (operation(i).operands[n].kind == Value::Kind::address) parity = operand(i, n + 1);
  std::set<int64_t> constants;
  std::set<int> seen;
  gather_constants(parity, constants, seen);
  if (constants.empty()) return "computed";
  return fmt::format("{}", fmt::join(constants, " or "));
}

void Facts::gather_constants(const Sum& sum, std::set<int64_t>& constants, std::set<int>& seen) const {
  if (sum.is_constant()) {
    constants.insert(sum.constant & 1);
    return;
  }
  const Atom* a = values_.only_atom(sum, "meet");
  if (!a || !seen.insert(sum.terms[0].first).second) return;
  for (const Sum& input : a->inputs) gather_constants(input, constants, seen);
}

Facts::Operations Facts::find_bulk_loads() {
  Operations all = loads_;
  std::erase_if(all, [&](int i) { return !operation(i).is_bulk_load(); });
  std::stable_sort(all.begin(), all.end(),
                   [&](int x, int y) { return operand(x, 0).constant < operand(y, 0).constant; });
  return all;
}

void Facts::copies() {
  region("copies in");
  std::vector<std::string> dimensions, masks, hints, steps;
  for (int i : find_bulk_loads()) {
    const Operation& o = operation(i);
    std::string dimension = "bulk", step = "?";
    for (std::string_view word : o.words)
      if (word.size() == 2 && word[1] == 'd') dimension = word;
    std::vector<Sum> others;  // operands after the barrier
    for (size_t n = 0; n < o.operands.size(); ++n) {
      if (o.operands[n].kind != Value::Kind::address) {
        others.push_back(operand(i, n));
      } else if (o.operands[n].parts.size() > 1) {
        step = step_of(i, o.operands[n].parts[1]);
      }
    }
    const bool multicast = o.has("multicast::cluster"), hinted = o.has("L2::cache_hint");
    dimensions.push_back(dimension);
    steps.push_back(step);
    masks.push_back(!multicast || others.empty() ? "no"
                    : others[0].is_constant()    ? fmt::format("to CTAs {:#x}", others[0].constant)
                                                 : "to CTAs by a computed mask");
    hints.push_back(hinted && !others.empty() ? policy(others.back()) : "none");
  }
  const uint32_t at_line = line(loads_, &Operation::is_bulk_load);
  add(Weight::result, "number", std::to_string(dimensions.size()), "more instructions for the same box",
      at_line);
  add(Weight::result, "dimensions", alike(dimensions), "another tensor map, such as with a batch", at_line);
  add(Weight::result, "multicast", alike(masks), "tiles that each CTA reads from L2 separately", at_line);
  add(Weight::detail, "cache policy", alike(hints), "different data kept in L2", at_line);
  add(Weight::result, "step along the tensors in an iteration", alike(steps),
      "a different part of the tensor", at_line);
  add_other_work("other instructions", loads_);
}

std::string Facts::step_of(int i, const Value& coordinates) {
  for (const Value& part : coordinates.parts) {
    int64_t step = 0;
    for (const auto& [number, factor] : values_.of(i, part).terms)
      if (const Atom& a = values_.atom(number);
          a.kind == Atom::Kind::counter && load_loop_ && graph_.blocks[at(a.block)].loop == load_loop_->loop)
        step += factor * a.inputs[1].constant;
    if (step) return fmt::format("{}", step);
  }
  return "unknown";
}

}  // namespace ptxbuilder::analysis
