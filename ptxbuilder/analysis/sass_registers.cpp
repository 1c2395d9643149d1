#include "ptxbuilder/analysis/sass_registers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "ptxbuilder/error.h"

namespace ptxbuilder::analysis {
namespace {

constexpr char kDead = ' ';
bool reads(char sign) { return sign == 'v' || sign == 'x'; }
bool writes(char sign) { return sign == '^' || sign == 'x'; }
bool is_matrix_product(const SassInstruction& i) { return i.root().ends_with("MMA"); }

// Returns the hexadecimal number after "/*" in an instruction's line, or nothing for other lines.
std::optional<uint32_t> address_of(std::string_view line) {
  const size_t open = line.find("/*"), close = line.find("*/");
  if (open == std::string_view::npos || close == std::string_view::npos) return std::nullopt;
  uint32_t address = 0;
  const char* end = line.data() + close;
  const auto read = std::from_chars(line.data() + open + 2, end, address, 16);
  return read.ec == std::errc{} && read.ptr == end ? std::optional(address) : std::nullopt;
}

// Returns the successors of an instruction in the graph of branches.
std::vector<int> successors(const SassKernel& kernel, int number) {
  const SassInstruction& i = kernel.instructions[at(number)];
  std::vector<int> next;
  const bool ends = i.is_branch() || i.root() == "EXIT" || i.root() == "RET";
  const bool has_condition = !i.guard.empty() || i.operands.find('P') < i.operands.find('`');
  if (i.is_branch() && i.target != kNone) next.push_back(i.target);
  if ((!ends || has_condition) && at(number + 1) < kernel.instructions.size()) next.push_back(number + 1);
  return next;
}

// Returns the number of registers that an instruction requests, such as 232 for "USETMAXREG.TRY_ALLOC.CTAPOOL
// UP0, 0xe8".
std::optional<int> granted_by(const SassInstruction& i) {
  const size_t digits = i.operands.rfind("0x");
  if (i.root() != "USETMAXREG" || digits == std::string::npos) return std::nullopt;
  int count = 0;
  std::from_chars(i.operands.data() + digits + 2, i.operands.data() + i.operands.size(), count, 16);
  return count;
}

// Returns the instructions that a role runs, without the instructions of the next role, which may follow them
// in the text.
std::vector<int> reached_from(const SassKernel& kernel, int first) {
  std::set<int> reached = {first};
  for (std::vector<int> waiting = {first}; !waiting.empty();) {
    const int number = waiting.back();
    waiting.pop_back();
    for (const int next : successors(kernel, number))
      if (!granted_by(kernel.instructions[at(next)]) && reached.insert(next).second) waiting.push_back(next);
  }
  return {reached.begin(), reached.end()};
}

// Returns whether the register is part of an address among the operands, such as "[R12.64+0x10]".
bool is_in_address(const SassInstruction& i, int number) {
  const std::string name = fmt::format("R{}", number);
  bool inside = false;
  for (size_t c = 0; c < i.operands.size(); ++c) {
    if (i.operands[c] == '[') inside = true;
    if (i.operands[c] == ']') inside = false;
    if (!inside || i.operands.compare(c, name.size(), name) != 0 || (c > 0 && i.operands[c - 1] == 'U'))
      continue;
    const char behind = c + name.size() < i.operands.size() ? i.operands[c + name.size()] : ' ';
    if (behind < '0' || behind > '9') return true;
  }
  return false;
}

// Returns a description of the contents of registers that an instruction with this root writes.
std::string_view written_by(std::string_view root) {
  constexpr std::pair<std::string_view, std::string_view> kinds[] = {{"LDL", "spilled values"},
                                                                     {"LDSM", "loaded from shared memory"},
                                                                     {"LDS", "loaded from shared memory"},
                                                                     {"LDG", "loaded from global memory"},
                                                                     {"LD", "loaded from memory"},
                                                                     {"LDC", "parameters and constants"},
                                                                     {"S2R", "numbers of threads and CTAs"},
                                                                     {"CS2R", "numbers of threads and CTAs"},
                                                                     {"SHFL", "of other lanes"},
                                                                     {"MUFU", "of the special function unit"},
                                                                     {"F2FP", "packed halves"},
                                                                     {"F2F", "converted"},
                                                                     {"FADD", "floats"},
                                                                     {"FMUL", "floats"},
                                                                     {"FFMA", "floats"},
                                                                     {"FMNMX", "floats"},
                                                                     {"FSEL", "floats"},
                                                                     {"HADD2", "packed halves"},
                                                                     {"HFMA2", "packed halves"},
                                                                     {"HMUL2", "packed halves"}};
  for (const auto& [name, kind] : kinds)
    if (root == name) return kind;
  return "";
}

// Finds the purpose of each register from the instructions that access it.
class Purposes {
 public:
  Purposes(const SassKernel& kernel, const LifeRanges& ranges, const std::vector<int>& code) {
    for (const int n : code) {
      const SassInstruction& i = kernel.instructions[at(n)];
      for (size_t r = 0; r < ranges[at(n)].size(); ++r) {
        const char sign = ranges[at(n)][r];
        if (sign == kDead || sign == ':') continue;
        touched_.insert(r);
        if (is_matrix_product(i)) (writes(sign) ? accumulators_ : operands_).insert(r);
        if (reads(sign) && is_in_address(i, static_cast<int>(r))) addresses_.insert(r);
      }
    }
  }

  bool is_touched(size_t r) const { return touched_.contains(r); }

  // `writer` is the last writer of the register, in the order of the code, or kNone if it was written
  // elsewhere.
  std::string_view of(size_t r, const SassKernel& kernel, int writer) const {
    if (accumulators_.contains(r)) return "accumulators";
    if (operands_.contains(r)) return "operands of wgmma";
    if (r == 1) return "the stack pointer";
    const std::string_view kind = writer == kNone ? "" : written_by(kernel.instructions[at(writer)].root());
    if (!kind.empty()) return kind;
    return addresses_.contains(r) ? "addresses" : "integers and others";
  }

 private:
  std::set<size_t> touched_, accumulators_, operands_, addresses_;
};

RegisterPeak peak_of(const SassKernel& kernel, const LifeRanges& ranges, const std::vector<int>& code) {
  const Purposes purposes(kernel, ranges, code);
  RegisterPeak peak;
  auto is_live = [&](int n, size_t r) { return ranges[at(n)][r] != kDead && purposes.is_touched(r); };
  for (const int n : code) {
    int live = 0;
    for (size_t r = 0; r < ranges[at(n)].size(); ++r) live += is_live(n, r) ? 1 : 0;
    if (live <= peak.live) continue;
    peak.live = live;
    peak.instruction = n;
  }
  if (peak.instruction == kNone) return peak;
  std::map<std::string_view, int> counts;
  for (size_t r = 0; r < ranges[at(peak.instruction)].size(); ++r) {
    if (!is_live(peak.instruction, r)) continue;
    int writer = kNone;
    for (int n = peak.instruction; n >= 0 && writer == kNone; --n)
      if (writes(ranges[at(n)][r])) writer = n;
    ++counts[purposes.of(r, kernel, writer)];
  }
  for (const auto& [what, count] : counts) peak.uses.emplace_back(what, count);
  std::stable_sort(peak.uses.begin(), peak.uses.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return peak;
}

// Returns the number of groups that may still be in flight after a wait, such as 1 for "WARPGROUP.DEPBAR.LE
// gsb0, 0x1".
std::optional<int> groups_left_by(const SassInstruction& i) {
  if (!i.opcode.starts_with("WARPGROUP.DEPBAR")) return std::nullopt;
  const size_t digits = i.operands.rfind("0x");
  int groups = 0;
  if (digits != std::string::npos)
    std::from_chars(i.operands.data() + digits + 2, i.operands.data() + i.operands.size(), groups, 16);
  return groups;
}

}  // namespace

LifeRanges parse_life_ranges(const SassKernel& kernel, std::string_view text) {
  constexpr std::string_view section = ".section", table = "// | ";
  const std::string name = fmt::format(".text.{},", kernel.name);
  std::map<uint32_t, int> places;
  for (size_t n = 0; n < kernel.instructions.size(); ++n)
    places[kernel.instructions[n].address] = static_cast<int>(n);
  LifeRanges ranges(kernel.instructions.size());
  // `first` is the column of R0 in the table, and `count` is the number of registers.
  size_t found = 0, first = 0, count = 0;
  bool inside = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.find(section) != std::string_view::npos) inside = line.find(name) != std::string_view::npos;
    const size_t begin = line.find(table);
    if (!inside || begin == std::string_view::npos) continue;
    const std::string_view columns = line.substr(begin);
    if (const size_t head = columns.find("# 0"); count == 0 && head != std::string_view::npos) {
      first = head + 2;
      count = std::min(columns.find_first_not_of("0123456789", first), columns.size()) - first;
      continue;
    }
    const std::optional<uint32_t> address = address_of(line.substr(0, begin));
    if (!address || count == 0) continue;
    const auto place = places.find(*address);
    if (place == places.end()) continue;  // padding at the end of the kernel
    if (columns.size() < first + count)
      throw Error(fmt::format("life ranges of '{}': the row of {:04x} ends before R{}", kernel.name, *address,
                              count - 1));
    ranges[at(place->second)] = columns.substr(first, count);
    ++found;
  }
  if (found != kernel.instructions.size())
    throw Error(fmt::format("life ranges of '{}': there are {} rows for {} instructions", kernel.name, found,
                            kernel.instructions.size()));
  return ranges;
}

std::vector<RegisterPeak> register_peaks(const SassKernel& kernel, const LifeRanges& ranges) {
  std::vector<RegisterPeak> peaks;
  for (size_t n = 0; n < kernel.instructions.size(); ++n) {
    const std::optional<int> granted = granted_by(kernel.instructions[n]);
    if (!granted) continue;
    RegisterPeak peak = peak_of(kernel, ranges, reached_from(kernel, static_cast<int>(n)));
    peak.granted = granted;
    peaks.push_back(std::move(peak));
  }
  if (peaks.empty() && !kernel.instructions.empty())
    peaks.push_back(peak_of(kernel, ranges, reached_from(kernel, 0)));
  return peaks;
}

std::vector<OverwrittenOperand> overwritten_operands(const SassKernel& kernel, const LifeRanges& ranges) {
  std::vector<OverwrittenOperand> found;
  for (size_t n = 0; n < kernel.instructions.size(); ++n) {
    if (!is_matrix_product(kernel.instructions[n]) ||
        kernel.instructions[n].operands.find("gdesc") == std::string::npos)
      continue;
    std::set<size_t> operands;
    for (size_t r = 0; r < ranges[n].size(); ++r)
      if (ranges[n][r] == 'v') operands.insert(r);
    if (operands.empty()) continue;
    // Each entry consists of an instruction and of the number of groups committed since the wgmma, including
    // the group of the wgmma. The number is 0 until the wgmma's group ends.
    std::set<std::pair<int, int>> seen;
    std::vector<std::pair<int, int>> waiting;
    auto go = [&](int from, int groups) {
      for (const int next : successors(kernel, from))
        if (seen.insert({next, groups}).second) waiting.emplace_back(next, groups);
    };
    auto ends_group = [&](int number) {
      const SassInstruction& i = kernel.instructions[at(number)];
      return is_matrix_product(i) && i.operands.find("gsb0") != std::string::npos ? 1 : 0;
    };
    go(static_cast<int>(n), ends_group(static_cast<int>(n)));
    while (!waiting.empty()) {
      const auto [number, groups] = waiting.back();
      waiting.pop_back();
      const SassInstruction& i = kernel.instructions[at(number)];
      if (const std::optional<int> left = groups_left_by(i); left && groups > *left) continue;  // complete
      bool is_written = false;
      for (const size_t r : operands)
        if (writes(ranges[at(number)][r]) && !is_matrix_product(i)) {
          found.push_back({static_cast<int>(n), number, static_cast<int>(r)});
          is_written = true;
        }
      if (!is_written) go(number, std::min(groups + ends_group(number), 8));
    }
  }
  return found;
}

}  // namespace ptxbuilder::analysis
