// The rule about wgmma's descriptors (PTX ISA, "Matrix Descriptor Format"): all descriptors of a tile must
// have the same swizzle as the tensor map of the copy that filled the tile.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "ptxbuilder/analysis/lint_accesses.h"
#include "ptxbuilder/analysis/lint_protocol.h"
#include "ptxbuilder/analysis/portrait.h"

namespace ptxbuilder::analysis {
namespace {

// The copies to each destination, in all stages.
using Destinations = std::map<int64_t, std::set<int>>;

Destinations destinations(LintKernel& kernel) {
  Destinations all;
  for (int i = 0; i < kernel.count(); ++i) {
    const std::vector<Sum> addresses = kernel.addresses(i);
    if (!kernel.operation(i).is_bulk_load() || !kernel.runs(i) || addresses.empty()) continue;
    const auto to = kernel.shared_offset(addresses.front());
    for (const ThreadClass& c : kernel.classes)
      if (to && c.runs[at(i)] != Runs::no)
        if (const auto places = options(kernel, kernel.values_in(c), *to))
          for (int64_t place : *places) all[place].insert(i);
  }
  return all;
}

// A group of descriptors of A or of B in a loop. The descriptors refer to bytes that one copy fills, and
// their addresses differ by constants.
struct Tile {
  size_t operand;
  int loop;
  std::vector<std::pair<int, int64_t>> terms;
  int64_t copied;  // index among the destinations; 0 if no destination is below the address

  auto operator<=>(const Tile&) const = default;
};

// A wgmma, and the bytes of an operand that it reads, relative to the constant of the operand's address.
struct Reader {
  int wgmma;
  int64_t first, last;
};
using Readers = std::map<int, std::vector<Reader>>;  // indexed by the layout in their descriptors

// Returns whether a wgmma reads the same tile as other wgmmas. If the tile was not copied, its beginning is
// not known. The wgmma is then assumed to read the same tile only if it reads bytes between bytes that other
// wgmmas read.
bool reads_between(const Reader& one, const std::vector<Reader>& others) {
  int64_t first = others[0].first, last = others[0].last;
  for (const Reader& other : others) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
  }
  return one.first < last && first < one.last;
}

// The beginning of the tile of a wgmma operand, in the tile's first stage, and the layout in the operand's
// descriptor. The following function returns nothing if the operand is in registers or not known.
struct Described {
  int64_t place;
  int layout;
};
std::optional<Described> tile_of(LintKernel& kernel, int wgmma, size_t operand) {
  if (kernel.operation(wgmma).operands[operand].kind == Value::Kind::vector) return std::nullopt;
  const auto descriptor = decode_descriptor(kernel.values, kernel.operand(wgmma, operand));
  const auto offset = descriptor ? kernel.shared_offset(descriptor->address) : std::nullopt;
  for (const ThreadClass& c : kernel.classes)
    if (offset && c.runs[at(wgmma)] != Runs::no)
      if (const auto places = options(kernel, kernel.values_in(c), *offset))
        return Described{*places->begin(), descriptor->layout};
  return std::nullopt;
}

std::map<Tile, Readers> readers_of(LintKernel& kernel) {
  const Destinations copies = destinations(kernel);
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
      all[{n, loop, descriptor->address.terms, copied}][descriptor->layout].push_back(
          {i, descriptor->address.constant,
           descriptor->address.constant + bytes_read(*descriptor, matrix_operand(o, n))});
    }
  }
  return all;
}

// Returns the swizzle of a copy's tensor map, encoded as in descriptors, or nothing if it is not known.
std::optional<int> layout_of_map(LintKernel& kernel, int copy) {
  const std::vector<Sum> addresses = kernel.addresses(copy);
  if (!kernel.operation(copy).has("tensor") || addresses.size() < 2) return std::nullopt;
  const Atom* parameter = kernel.values.only_atom({.terms = addresses[1].terms}, "parameter");
  if (!parameter || parameter->kind != Atom::Kind::parameter) return std::nullopt;
  const auto map = kernel.maps.find({static_cast<int>(parameter->inputs[0].constant), addresses[1].constant});
  constexpr int kLayouts = 4;  // swizzles: none, 128 B, 64 B and 32 B
  return map == kernel.maps.end() ? std::nullopt
                                  : std::optional((kLayouts - static_cast<int>(map->second)) % kLayouts);
}

std::string_view name_of(int layout) {
  MatrixDescriptor descriptor;
  descriptor.layout = layout;
  return layout_name(descriptor);
}

}  // namespace

// Reports wgmmas whose swizzle differs from the swizzle of the tensor map. If there is no map, the swizzle of
// most wgmmas is assumed to be right.
void check_layouts(LintKernel& kernel, Report& report) {
  tell_unknown_reads(kernel, report);
  const Destinations copies = destinations(kernel);
  for (int i = 0; i < kernel.count() && !kernel.maps.empty(); ++i) {
    std::vector<std::string> wrong;
    std::set<int> by;
    for (size_t n = 1; n < 3 && kernel.operation(i).is_wgmma(); ++n) {
      const auto tile = tile_of(kernel, i, n);
      const auto behind = tile ? copies.upper_bound(tile->place) : copies.begin();
      if (behind == copies.begin()) continue;
      for (int copy : std::prev(behind)->second)
        if (const auto layout = layout_of_map(kernel, copy);
            layout && *layout != tile->layout && by.insert(copy).second)
          wrong.push_back(
              fmt::format("the descriptor of {} in this wgmma has {}, but the tensor map with which the tile "
                          "is copied has {}",
                          n == 1 ? "A" : "B", name_of(tile->layout), name_of(*layout)));
    }
    if (!wrong.empty()) report.add(i, fmt::format("{}", fmt::join(wrong, "; ")), by);
  }
  for (const auto& [tile, readers] : readers_of(kernel)) {
    const auto most = std::max_element(readers.begin(), readers.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second.size(), -a.second[0].wgmma) < std::pair(b.second.size(), -b.second[0].wgmma);
    });
    for (const auto& [layout, those] : readers)
      for (const Reader& reader : those)
        if (layout != most->first && reads_between(reader, most->second))
          report.add(
              reader.wgmma,
              fmt::format("the descriptor of {} in this wgmma has {}, but others of the same tile have {}",
                          tile.operand == 1 ? "A" : "B", name_of(layout), name_of(most->first)),
              {most->second[0].wgmma});
  }
}

}  // namespace ptxbuilder::analysis
