// The rule of wgmma's descriptors (PTX ISA, "Matrix Descriptor Format"): those of one tile say the same
// swizzle, which is how the tile was copied.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ptxbuilder/analysis/lint_accesses.h"
#include "ptxbuilder/analysis/lint_protocol.h"
#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {
namespace {

// Where copies go, at all stages.
std::set<int64_t> destinations(LintKernel& kernel) {
  std::set<int64_t> all;
  for (int i = 0; i < kernel.count(); ++i) {
    const std::vector<Sum> addresses = kernel.addresses(i);
    if (!kernel.operation(i).is_bulk_load() || !kernel.runs(i) || addresses.empty()) continue;
    const auto to = kernel.shared_offset(addresses.front());
    for (const ThreadClass& c : kernel.classes)
      if (to && c.runs[at(i)] != Runs::no)
        if (const auto places = options(kernel, kernel.values_in(c), *to))
          all.insert(places->begin(), places->end());
  }
  return all;
}

// Descriptors of A or of B in a loop, with one address but for a constant, and of what one copy brings.
struct Tile {
  size_t operand;
  int loop;
  std::vector<std::pair<int, int64_t>> terms;
  int64_t copied;  // the place among the destinations; 0 where there is none below

  auto operator<=>(const Tile&) const = default;
};

using Readers = std::map<int, std::vector<int>>;  // by the descriptor's layout, the wgmmas in order

std::map<Tile, Readers> readers_of(LintKernel& kernel) {
  const std::set<int64_t> copies = destinations(kernel);
  std::map<Tile, Readers> all;
  for (int i = 0; i < kernel.count(); ++i) {
    const Operation& o = kernel.operation(i);
    for (size_t n = 1; n < 3 && o.is_wgmma(); ++n) {
      if (o.operands[n].kind == Value::Kind::vector) continue;
      const auto descriptor = decode_descriptor(kernel.values, kernel.operand(i, n));
      if (!descriptor) continue;
      const auto offset = kernel.shared_offset(descriptor->address);
      const auto places =
          offset ? options(kernel, kernel.values_in(kernel.classes.front()), *offset) : std::nullopt;
      const int64_t copied = places ? std::distance(copies.begin(), copies.upper_bound(*places->begin())) : 0;
      const int loop = kernel.graph.blocks[at(kernel.graph.block_of[at(i)])].loop;
      all[{n, loop, descriptor->address.terms, copied}][descriptor->layout].push_back(i);
    }
  }
  return all;
}

std::string_view name_of(int layout) {
  MatrixDescriptor descriptor;
  descriptor.layout = layout;
  return layout_name(descriptor);
}

}  // namespace

// What most of them say is taken to be right.
void check_layouts(LintKernel& kernel, Report& report) {
  tell_unknown_reads(kernel, report);
  for (const auto& [tile, readers] : readers_of(kernel)) {
    const auto most = std::max_element(readers.begin(), readers.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second.size(), -a.second[0]) < std::pair(b.second.size(), -b.second[0]);
    });
    for (const auto& [layout, wgmmas] : readers)
      if (layout != most->first)
        for (int i : wgmmas)
          report.add(i,
                     fmt::format("this wgmma's descriptor of {} says {}, and others of the same tile say {}",
                                 tile.operand == 1 ? "A" : "B", name_of(layout), name_of(most->first)),
                     {most->second[0]});
  }
}

}  // namespace ptxbuilder::analysis
