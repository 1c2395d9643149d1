#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "ptxbuilder/analysis/facts_kernel.h"

namespace ptxbuilder::analysis {

std::string Facts::joined(const Words& words) {
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

std::string Facts::alike(const Words& words) {
  const bool are =
      std::all_of(words.begin(), words.end(), [&](const auto& word) { return word == words[0]; });
  return words.size() > 1 && are ? words[0] : joined(words);
}

std::string Facts::folded(const Words& words) {
  for (size_t period = 1; period <= words.size() / 2; ++period) {
    if (words.size() % period != 0) continue;
    bool repeats = true;
    for (size_t i = period; i < words.size(); ++i) repeats &= words[i] == words[i - period];
    if (repeats)
      return fmt::format("{} x ({})", words.size() / period,
                         fmt::join(words.begin(), words.begin() + static_cast<int64_t>(period), ", "));
  }
  return joined(words);
}

Facts::Facts(KernelAnalysis& kernel)
    : p_(kernel.portrait), code_(kernel.code), graph_(kernel.graph), values_(kernel.values) {
  for (const Mainloop& loop : p_.loops) {
    const Operations all = operations_of(graph_.loops[at(loop.loop)].blocks);
    if (count(all, is_product) > 0 && !product_loop_) product_loop_ = &loop;
    if (count(all, &Operation::is_bulk_load) > 0 && !load_loop_) load_loop_ = &loop;
  }
  if (product_loop_) products_ = operations_of(graph_.loops[at(product_loop_->loop)].blocks);
  if (load_loop_) loads_ = operations_of(graph_.loops[at(load_loop_->loop)].blocks);
  all_ = operations_of(graph_.order);
  for (const BarrierArray& array : p_.barriers)
    for (const BarrierUse& use : array.uses) barrier_of_.emplace(use.operation, array.name);
  find_epilogue();
}

std::vector<Region> Facts::run() {
  launch();
  roles();
  ring();
  copies();
  products();
  epilogue();
  schedule();
  start_and_end();
  unknowns();
  return std::move(regions_);
}

Facts::Operations Facts::operations_of(const std::vector<int>& blocks) const {
  std::vector<bool> chosen(graph_.blocks.size(), false);
  for (int block : blocks) chosen[at(block)] = true;
  Operations all;
  for (int block : graph_.order)
    if (chosen[at(block)])
      for (int i = graph_.blocks[at(block)].first; i < graph_.blocks[at(block)].last; ++i) all.push_back(i);
  return all;
}

size_t Facts::count(const Operations& all, const Test& test) const {
  return static_cast<size_t>(
      std::count_if(all.begin(), all.end(), [&](int i) { return test(operation(i)); }));
}

uint32_t Facts::line(const Operations& all, const Test& test) const {
  const auto found = std::find_if(all.begin(), all.end(), [&](int i) { return test(operation(i)); });
  return found == all.end() ? 0 : operation(*found).at.line;
}

std::string Facts::role_of(int block) const {
  std::vector<std::string> names;
  for (const Role& role : p_.roles)
    if (std::binary_search(role.blocks.begin(), role.blocks.end(), block)) names.push_back(role.name);
  return names.empty() ? "all" : fmt::format("{}", fmt::join(names, " and "));
}

const BarrierArray* Facts::barrier(std::string_view name) const {
  const auto found = std::find_if(p_.barriers.begin(), p_.barriers.end(),
                                  [&](const BarrierArray& a) { return a.name == name; });
  return found == p_.barriers.end() ? nullptr : &*found;
}

std::string Facts::barrier_of(int i) const {
  const auto found = barrier_of_.find(i);
  return found == barrier_of_.end() ? "an unknown barrier" : found->second;
}

void Facts::region(const char* name) { regions_.push_back({.name = name, .events = {}, .is_fact = true}); }

void Facts::add(Weight weight, const char* kind, std::string value, const char* effect, uint32_t line) {
  regions_.back().events.push_back({.kind = kind,
                                    .weight = weight,
                                    .attributes = {{weight, "", std::move(value), effect}},
                                    .effect = effect,
                                    .line = line});
}

void Facts::add_count(Weight weight, const char* kind, const Operations& all, const Test& test,
                      const char* effect) {
  add(weight, kind, std::to_string(count(all, test)), effect, line(all, test));
}

void Facts::add_kinds(Weight weight, const char* kind, const Operations& all, const Test& test,
                      const char* effect) {
  std::map<std::string, int> found;
  for (int i : all)
    if (test(operation(i))) ++found[plain(operation(i))];
  std::vector<std::string> words;
  for (const auto& [name, times] : found) words.push_back(fmt::format("{} x {}", times, name));
  add(weight, kind, joined(words), effect, line(all, test));
}

void Facts::add_forms(Weight weight, const char* kind, const Operations& all, const Test& test,
                      const char* effect) {
  std::set<std::string> found;
  for (int i : all)
    if (test(operation(i))) found.insert(plain(operation(i)));
  add(weight, kind, joined({found.begin(), found.end()}), effect, line(all, test));
}

void Facts::add_other_work(const char* kind, const Operations& loop) {
  const Test test = [](const Operation& o) {
    return !is_product(o) && !o.is_bulk_load() && !o.is("mov") && !o.is("wgmma") && !o.is("mbarrier") &&
           !o.is("cvta") && !o.is("fence");
  };
  add_count(Weight::detail, kind, loop, test, "issue slots that the loop's own work takes");
}

std::string Facts::plain(const Operation& o) {
  const std::vector<std::string_view> words = o.canonical_words();
  std::string name(words[0]), count;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const bool is_default = o.is("mul", "add") && word == "rn";
    const bool is_spelling = (word == "sync" && words[0] != "bar") || word == "aligned" || word == "shared" ||
                             word == "shared::cta" || word == "b16" || word == "tile";
    if (is_default || is_spelling) continue;
    if (o.is("stmatrix", "ldmatrix") && word[0] == 'x')
      count = word;  // the count may precede or follow the shape
    else
      name += fmt::format(".{}", word);
  }
  return count.empty() ? name : fmt::format("{}.{}", name, count);
}

void Facts::unknowns() {
  region("unknown");
  std::map<std::string, int> counts;
  for (const std::string& what : p_.unknowns) ++counts[what.substr(0, what.find(" at line"))];
  for (const auto& [what, times] : counts)
    regions_.back().events.push_back(
        {.kind = what,
         .weight = Weight::protocol,
         .attributes = {{Weight::protocol, "", std::to_string(times), "its effect could not be determined"}},
         .effect = "its effect could not be determined"});
}

std::vector<Region> facts(KernelAnalysis& kernel) { return Facts(kernel).run(); }

}  // namespace ptxbuilder::analysis
