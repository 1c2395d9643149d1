// Collects facts about the launch, the beginning and the end of a kernel.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "ptxbuilder/analysis/facts_kernel.h"

namespace ptxbuilder::analysis {

void Facts::launch() {
  region("launch");
  add(Weight::result, "threads", std::to_string(p_.threads),
      "parts of a tile that no warp computes, or other registers for each");
  for (const auto& [name, kind, effect] :
       {std::tuple(".minnctapersm", "CTAs that an SM must hold", "another limit on registers"),
        std::tuple(".maxnreg", "most registers", "another limit on registers"),
        std::tuple(".reqnctapercluster", "cluster",
                   "a cluster that the launch must state, or cannot choose")}) {
    std::string value = "not said";
    for (const ptx_text::Directive& d : code_.function->directives)
      if (d.tokens[0] == name) value = fmt::format("{}", fmt::join(d.tokens.begin() + 1, d.tokens.end(), ""));
    add(name[1] == 'r' ? Weight::detail : Weight::resources, kind, value, effect);
  }
  int64_t bytes = 0;
  for (const Variable& v : code_.variables)
    if (v.space == ".shared") bytes += v.bytes;
  add(Weight::resources, "static shared memory", fmt::format("{} B", bytes), "fewer CTAs or stages");
  declarations();
  for (const auto& [word, kind, effect] :
       {std::tuple(
            "wait", "waits for the previous launch",
            "a launch that begins only when the previous one has ended, or reads data that is not there yet"),
        std::tuple("launch_dependents", "lets the next launch begin",
                   "a next launch whose start does not overlap this one's end")}) {
    std::set<std::string> who;
    const Test test = [&, name = word](const Operation& o) { return o.is("griddepcontrol") && o.has(name); };
    for (int i : all_)
      if (test(operation(i))) who.insert(role_of(graph_.block_of[at(i)]));
    add(Weight::pipeline, kind, joined({who.begin(), who.end()}), effect, line(all_, test));
  }
}

void Facts::declarations() {
  int64_t align = 1;
  std::vector<std::string> variables;  // sorted below, because their order has no effect
  for (const Variable& v : code_.variables) {
    if (v.space == ".shared") align = std::max(align, v.align);
    if (!v.initializer.empty())
      variables.push_back(fmt::format("{} {} {};", v.space, v.bytes, v.initializer));
  }
  std::sort(variables.begin(), variables.end());
  std::string data = fmt::format("{}", fmt::join(variables, ""));
  add(Weight::result, "alignment of shared memory", fmt::format("{} B", align),
      "tiles that do not match their swizzle or a descriptor");
  constexpr size_t kMost = 200;
  if (data.size() > kMost)
    data =
        fmt::format("{} ... ({} characters, sum {:#x})", data.substr(0, kMost), data.size(), hash_of(data));
  add(Weight::result, "data that the module contains", data.empty() ? "none" : data, "other constants");
  std::vector<std::string> parameters, others;
  for (const ptx_text::Declaration& d : code_.function->parameters) {
    std::string text = d.qualifiers.empty() ? "" : d.qualifiers.back();
    if (!d.names.empty())
      for (const std::string& extent : d.names[0].extents) text += fmt::format("[{}]", extent);
    parameters.push_back(text);
  }
  constexpr std::array told = {".minnctapersm", ".maxnreg", ".reqnctapercluster", ".maxntid", ".reqntid"};
  for (const ptx_text::Directive& d : code_.function->directives)
    if (std::find(told.begin(), told.end(), d.tokens[0]) == told.end())
      others.push_back(fmt::format("{}", fmt::join(d.tokens, "")));
  add(Weight::detail, "parameters", joined(parameters), "arguments that the launch must lay out differently");
  add(Weight::detail, "other directives", joined(others), "another launch");
  add(Weight::detail, "target", code_.target.empty() ? "not said" : code_.target, "other GPUs that run it");
}

void Facts::roles() {
  region("roles");
  std::set<std::string> of_producer;
  for (const char* name : {"producer", "consumer", "all", "other"}) {
    size_t warps = 0;
    std::set<std::string> registers;
    for (const Role& role : p_.roles)
      if (role.name == name) {
        warps += role.warps.size();
        registers.insert(role.registers ? fmt::format("{} registers", *role.registers)
                                        : "registers as launched");
      }
    std::string words = fmt::format("{} warp{}", warps, warps == 1 ? "" : "s");
    // Idle warps in the producer's warpgroup have as many registers as the producer, so the number is not
    // printed again.
    if (*name != 'o' || registers != of_producer)
      words += fmt::format(" of {}", fmt::join(registers, " or "));
    if (*name == 'p') of_producer = registers;
    add(Weight::resources, name, warps ? words : "none",
        "spills if there are too few registers, or other warps that lack registers");
  }
  const auto producer =
      std::find_if(p_.roles.begin(), p_.roles.end(), [](const Role& r) { return r.name == "producer"; });
  add(Weight::protocol, "the producer is",
      producer == p_.roles.end() ? "none"
      : producer->warps[0] == 0  ? "the first warp"
                                 : fmt::format("warp {}", producer->warps[0]),
      "other warps that wait, or registers given to others");
}

void Facts::schedule() {
  region("schedule");
  add(Weight::pipeline, "tiles of a CTA", tile_loop_ == kNone ? "one" : "several, in a loop",
      "a start and an end of each tile that do not overlap other work");
  Operations tiles;
  for (const auto& loop : {product_loop_, load_loop_}) {
    if (!loop) continue;
    int outer = loop->loop;
    while (graph_.loops[at(outer)].parent != kNone) outer = graph_.loops[at(outer)].parent;
    const Operations more = operations_of(graph_.loops[at(outer)].blocks);
    tiles.insert(tiles.end(), more.begin(), more.end());
  }
  std::sort(tiles.begin(), tiles.end());
  tiles.erase(std::unique(tiles.begin(), tiles.end()), tiles.end());
  add_count(
      Weight::detail, "divisions for a tile's place", tiles,
      [](const Operation& o) {
        return o.is("div", "rem") || (o.is("cvt") && o.has("rzi")) || (o.is("mul") && o.has("hi"));
      },
      "time between two tiles");
  add_kinds(
      Weight::protocol, "atomic operations", all_,
      [](const Operation& o) { return o.is("atom", "red") || (o.is("ld") && o.has("acquire")); },
      "tiles that CTAs share, or how CTAs find their next tile");
  add_kinds(
      Weight::result, "sums through memory", all_,
      [](const Operation& o) { return o.is("st") && o.has("global"); },
      "stores by threads, such as of parts of a sum");
  std::vector<std::string> turns;
  for (const BarrierArray& array : p_.barriers)
    if (array.name.starts_with("other"))
      turns.push_back(fmt::format("{} of {} arrivals", array.count,
                                  array.arrivals ? std::to_string(*array.arrivals) : "unknown"));
  add(Weight::protocol, "barriers for other ends", joined(turns),
      "turns of warpgroups, or loads of the epilogue");
}

void Facts::start_and_end() {
  region("start and end");
  auto of_all = [&](const Test& test, bool at_start) {
    std::vector<std::string> words;
    const int first_loop = load_loop_      ? graph_.loops[at(load_loop_->loop)].header
                           : product_loop_ ? graph_.loops[at(product_loop_->loop)].header
                                           : kNone;
    for (int i : all_) {
      const int block = graph_.block_of[at(i)];
      if (!test(operation(i)) || graph_.blocks[at(block)].loop != kNone) continue;
      const bool ahead = first_loop == kNone || graph_.dominates(block, first_loop);
      if (ahead != at_start) continue;
      std::string word = plain(operation(i));
      if (words.empty() || words.back() != word) words.push_back(std::move(word));
    }
    return joined(words);
  };
  const Test meets = [](const Operation& o) { return o.is_barrier(); };
  add(Weight::protocol, "synchronization before the loops", of_all(meets, true),
      "barriers that other threads may use uninitialized");
  add(Weight::protocol, "cluster synchronization at the end",
      of_all([&](const Operation& o) { return meets(o) && o.has("cluster"); }, false),
      "a CTA that has ended when another accesses its memory");
  size_t drains = 0;
  const std::set<int> loads(loads_.begin(), loads_.end());
  for (int i : all_) drains += is_wait(operation(i)) && barrier_of(i) == "empty" && !loads.contains(i);
  add(Weight::protocol, "waits for freed stages at the end", std::to_string(drains),
      "a CTA that has ended when another frees a stage of it");
  add(Weight::result, "fence of barriers",
      count(all_, [](const Operation& o) { return o.has("mbarrier_init"); }) ? "yes" : "no",
      "barriers that other CTAs may use uninitialized");
  add_count(
      Weight::detail, "prefetched tensor maps", all_,
      [](const Operation& o) { return o.is("prefetch") && o.has("tensormap"); },
      "a first load that waits for its tensor map");
}

}  // namespace ptxbuilder::analysis
