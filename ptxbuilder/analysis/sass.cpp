#include "ptxbuilder/analysis/sass.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "ptxbuilder/analysis/graph.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::analysis {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

// Removes the first word from `text`, and returns it.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find_first_of(" \t"));
  text = trimmed(text.substr(word.size()));
  return word;
}

class Parsing {
 public:
  explicit Parsing(std::string_view text) : text_(text) {}

  std::vector<SassKernel> run() {
    while (!text_.empty()) {
      const std::string_view whole = text_.substr(0, text_.find('\n'));
      text_.remove_prefix(std::min(whole.size() + 1, text_.size()));
      ++line_;
      line(trimmed(whole));
    }
    end_kernel();
    return std::move(kernels_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("SASS line {}: {}", line_, what));
  }

  void line(std::string_view text) {
    constexpr std::string_view section = ".section", code = ".text.", source = "//## File ";
    if (text.starts_with(section)) {
      text = trimmed(text.substr(section.size()));
      end_kernel();
      if (text.starts_with(code)) begin_kernel(text.substr(code.size(), text.find(',') - code.size()));
    } else if (!in_kernel_) {
      return;
    } else if (text.starts_with(source)) {
      source_line(text);
    } else if (text.starts_with("/*") && text.size() > 2 && text[2] != ' ') {
      instruction(text);
    } else if (text.ends_with(':')) {
      labels_[std::string(text.substr(0, text.size() - 1))] = static_cast<int>(instructions().size());
    }
  }

  std::vector<SassInstruction>& instructions() { return kernels_.back().instructions; }

  void begin_kernel(std::string_view name) {
    kernels_.push_back({.name = std::string(name)});
    in_kernel_ = true;
    source_ = 0;
  }

  // Resolves the labels. Called at the end of a kernel, because labels may follow their uses.
  void end_kernel() {
    if (!in_kernel_) return;
    while (!instructions().empty() && instructions().back().opcode == "NOP") instructions().pop_back();
    for (const auto& [number, label] : uses_) {
      SassInstruction& i = instructions()[at(number)];
      const auto found = labels_.find(label);
      if (found != labels_.end() && at(found->second) < instructions().size())
        i.target = found->second;
      else if (i.is_branch())
        fail(fmt::format("the label '{}' of '{}' does not exist", label, kernels_.back().name));
    }
    for (const auto& [label, place] : labels_)
      if (label.starts_with(".L")) kernels_.back().labels[place].push_back(label);
    labels_.clear();
    uses_.clear();
    in_kernel_ = false;
  }

  // Parses a line such as //## File "gemm.cpp", line 14 inlined at "main.cpp", line 3
  void source_line(std::string_view text) {
    constexpr std::string_view word = ", line ";
    const size_t begin = text.find(word);
    source_ = 0;
    if (begin == std::string_view::npos) return;
    const char* digits = text.data() + begin + word.size();
    std::from_chars(digits, text.data() + text.size(), source_);
  }

  // Parses a line such as /*0540*/ @P0 BRA `(.L_x_4) ;
  void instruction(std::string_view text) {
    SassInstruction i{.line = source_};
    const size_t close = text.find("*/");
    if (close == std::string_view::npos) fail("an address is not closed");
    const auto address = std::from_chars(text.data() + 2, text.data() + close, i.address, 16);
    if (address.ptr != text.data() + close) fail("an address is not a hexadecimal number");
    const size_t end = text.find(';', close);
    if (end == std::string_view::npos) {
      fail("an instruction does not end with ';'");
    }
    text = trimmed(text.substr(close + 2, end - close - 2));
    if (text.starts_with('{')) text = trimmed(text.substr(1));  // the opening brace of a pair
    if (text.starts_with('@')) i.guard = take_word(text);
    i.opcode = take_word(text);
    i.operands = text;
    if (const size_t open = text.find("`("); open != std::string_view::npos)
      uses_.emplace_back(static_cast<int>(instructions().size()),
                         text.substr(open + 2, text.find(')', open) - open - 2));
    instructions().push_back(std::move(i));
  }

  std::string_view text_;
  int line_ = 0;
  bool in_kernel_ = false;
  uint32_t source_ = 0;
  std::vector<SassKernel> kernels_;
  std::map<std::string, int> labels_;
  std::vector<std::pair<int, std::string>> uses_;  // branches and their labels
};

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Returns whether a loop with this instruction is compared.
bool is_heavy(const SassInstruction& i) {
  const std::string_view root = i.root();
  return root.ends_with("MMA") || root.starts_with("UTMALDG") || root == "UBLKCP" || root == "LDGSTS";
}

Graph graph_of(const SassKernel& kernel) {
  Code code;
  for (const SassInstruction& i : kernel.instructions) {
    Operation o{.words = {i.root()}};
    if (i.is_branch() && i.target != kNone) o.targets = {i.target};
    const bool ends = i.is_branch() || is_one_of(i.root(), {"EXIT", "RET"});
    const bool has_condition = !i.guard.empty() || i.operands.find('P') < i.operands.find('`');
    o.falls_through = !ends || has_condition;
    code.operations.push_back(std::move(o));
  }
  return Graph::of(code);
}

// Returns a hash of a kernel. Labels are hashed as positions, because their names depend on other parts of
// the cubin.
std::string hash_of(const SassKernel& kernel) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const SassInstruction& i : kernel.instructions) {
    const std::string operands = i.operands.substr(0, i.operands.find('`'));
    for (const char c : fmt::format("{} {} {} {};", i.guard, i.opcode, operands, i.target))
      hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  return fmt::format("#{:08x}", static_cast<uint32_t>(hash));
}

// Returns a description of an instruction. For waits, and for instructions that reallocate registers, the
// description includes the operands. For a matrix instruction, it states whether the instruction ends a
// group.
std::string told(const SassInstruction& i) {
  if (is_one_of(i.root(), {"WARPGROUP", "DEPBAR", "USETMAXREG", "BAR"}) && !i.operands.empty())
    return i.opcode + " " + i.operands;
  const size_t group = i.operands.find("gsb");
  return i.root().ends_with("MMA") && group != std::string::npos ? i.opcode + " " + i.operands.substr(group)
                                                                 : i.opcode;
}

Event counted(std::string kind, Weight weight, int count, std::string effect = {}) {
  return {.kind = std::move(kind),
          .weight = weight,
          .attributes = {{weight, "count", std::to_string(count), std::move(effect)}}};
}

int count_of(const std::map<std::string, int>& histogram, const std::string& root) {
  const auto found = histogram.find(root);
  return found == histogram.end() ? 0 : found->second;
}

Region resources(const SassKernel& kernel) {
  const std::map<std::string, int> all = histogram(kernel);
  auto fact = [](const char* name, uint32_t value, const char* effect) {
    return counted(name, Weight::resources, static_cast<int>(value), effect);
  };
  return {"SASS",
          {fact("registers", kernel.registers, "fewer warps on an SM, or spills"),
           fact("stack bytes", kernel.stack_bytes, "local memory"),
           counted("spill stores (STL)", Weight::resources, count_of(all, "STL"), "traffic through L1"),
           counted("spill loads (LDL)", Weight::resources, count_of(all, "LDL"), "traffic through L1")}};
}

Region loop_region(const SassKernel& kernel, const SassLoop& loop) {
  Region region = {"SASS " + loop.name, {}};
  std::map<std::string, int> others;
  for (const int n : loop.instructions) {
    const SassInstruction& i = kernel.instructions[at(n)];
    if (is_told(i))
      region.events.push_back({.kind = told(i), .weight = Weight::pipeline});
    else
      ++others[std::string(i.root())];
  }
  for (const auto& [root, count] : others) region.events.push_back(counted(root, Weight::pipeline, count));
  return region;
}

// --- Two columns ---

constexpr int kWidth = 44;

std::string row(const std::string& a, const std::string& b) {
  return fmt::format("  {:{}} {} {}\n", a, kWidth, a == b ? ' ' : '|', b);
}

std::string counts_side_by_side(const std::map<std::string, int>& a, const std::map<std::string, int>& b) {
  std::set<std::string> roots;
  for (const auto* histogram : {&a, &b})
    for (const auto& [root, count] : *histogram) roots.insert(root);
  std::string text;
  for (const std::string& root : roots) {
    const int in_a = count_of(a, root), in_b = count_of(b, root);
    text += fmt::format("  {:16} {:6} {:6}{}\n", root, in_a, in_b,
                        in_a == in_b ? "" : fmt::format("  {:+}", in_b - in_a));
  }
  return text;
}

// Returns one string for each instruction that is printed individually, and the numbers of other instructions
// between them.
std::vector<std::string> steps(const SassKernel& kernel, const SassLoop& loop) {
  std::vector<std::string> all;
  int others = 0;
  auto tell_others = [&] {
    if (others) all.push_back(fmt::format("  ({} others)", std::exchange(others, 0)));
  };
  for (const int n : loop.instructions) {
    const SassInstruction& i = kernel.instructions[at(n)];
    if (!is_told(i)) {
      ++others;
      continue;
    }
    tell_others();
    all.push_back(i.guard.empty() ? told(i) : i.guard + " " + told(i));
  }
  tell_others();
  return all;
}

// Aligns the loops with the longest common subsequence. Loops that are too long for this algorithm are
// compared row by row.
std::string steps_side_by_side(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  constexpr size_t kMostCells = 1 << 24;
  if (!a.empty() && b.size() > kMostCells / a.size()) {
    std::string text;
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i)
      text += row(i < a.size() ? a[i] : "", i < b.size() ? b[i] : "");
    return text;
  }
  std::vector<std::vector<int>> best(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;)
    for (size_t j = b.size(); j-- > 0;)
      best[i][j] = a[i] == b[j] ? best[i + 1][j + 1] + 1 : std::max(best[i + 1][j], best[i][j + 1]);
  std::string text;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j])
      text += row(a[i++], b[j++]);
    else if (j == b.size() || (i < a.size() && best[i + 1][j] >= best[i][j + 1]))
      text += row(a[i++], "");
    else
      text += row("", b[j++]);
  }
  return text;
}

}  // namespace

std::string_view SassInstruction::root() const {
  return std::string_view(opcode).substr(0, opcode.find('.'));
}

bool SassInstruction::is_branch() const { return is_one_of(root(), {"BRA", "BRX", "JMP", "BREAK"}); }

std::string SassInstruction::text() const {
  return fmt::format("{}{}{}{}{}", guard, guard.empty() ? "" : " ", opcode, operands.empty() ? "" : " ",
                     operands);
}

std::vector<SassKernel> parse_sass(std::string_view text) { return Parsing(text).run(); }

std::vector<SassLoop> mainloops(const SassKernel& kernel) {
  const Graph graph = graph_of(kernel);
  std::map<int, std::string> roots;  // for each loop, the root of its first heavy instruction
  for (size_t n = 0; n < kernel.instructions.size(); ++n) {
    const int loop = graph.blocks[at(graph.block_of[n])].loop;
    if (loop != kNone && is_heavy(kernel.instructions[n]))
      roots.try_emplace(loop, kernel.instructions[n].root());
  }
  std::map<std::string, int> count;
  std::vector<SassLoop> loops;
  for (const auto& [loop, root] : roots) {
    const int number = ++count[root];
    loops.push_back({number == 1 ? "loop of " + root : fmt::format("loop of {} {}", root, number), {}});
    for (const int b : graph.loops[at(loop)].blocks)
      for (int n = graph.blocks[at(b)].first; n < graph.blocks[at(b)].last; ++n)
        loops.back().instructions.push_back(n);
    std::sort(loops.back().instructions.begin(), loops.back().instructions.end());
  }
  return loops;
}

bool is_told(const SassInstruction& i) {
  const std::string_view root = i.root();
  if (root.ends_with("MMA") || root.starts_with("UTMA") || root.starts_with("UBLK") ||
      root.starts_with("UCGABAR"))
    return true;
  return is_one_of(root,
                   {"SYNCS",     "BAR",   "WARPGROUP", "WARPSYNC", "DEPBAR", "FENCE",  "MEMBAR", "USETMAXREG",
                    "LDSM",      "STSM",  "LDS",       "STS",      "ATOMS",  "LDG",    "STG",    "LDGSTS",
                    "LDGDEPBAR", "ATOMG", "RED",       "LDL",      "STL",    "ACQBULK"});
}

std::map<std::string, int> histogram(const SassKernel& kernel) {
  std::map<std::string, int> counts;
  for (const SassInstruction& i : kernel.instructions) ++counts[std::string(i.root())];
  return counts;
}

std::map<std::string, int> histogram(const SassKernel& kernel, const SassLoop& loop) {
  std::map<std::string, int> counts;
  for (const int n : loop.instructions) ++counts[std::string(kernel.instructions[at(n)].root())];
  return counts;
}

std::vector<Region> regions(const SassKernel& kernel) {
  std::vector<Region> all = {resources(kernel)};
  for (const SassLoop& loop : mainloops(kernel)) all.push_back(loop_region(kernel, loop));
  Region whole = {"SASS instructions", {}};
  for (const auto& [root, count] : histogram(kernel))
    whole.events.push_back(counted(root, Weight::detail, count));
  whole.events.push_back({.kind = "all, with operands",
                          .weight = Weight::detail,
                          .attributes = {{Weight::detail, "hash", hash_of(kernel)}}});
  all.push_back(std::move(whole));
  return all;
}

std::string side_by_side(const SassKernel& a, const SassKernel& b) {
  std::string text = fmt::format("{:18} {:>6} {:>6}\n", "SASS", "A", "B");
  auto fact = [&](const char* name, uint64_t x, uint64_t y) {
    text += fmt::format("  {:16} {:6} {:6}\n", name, x, y);
  };
  fact("registers", a.registers, b.registers);
  fact("stack bytes", a.stack_bytes, b.stack_bytes);
  fact("instructions", a.instructions.size(), b.instructions.size());
  text += "\ninstructions\n" + counts_side_by_side(histogram(a), histogram(b));
  const std::vector<SassLoop> loops_a = mainloops(a), loops_b = mainloops(b);
  for (size_t n = 0; n < std::max(loops_a.size(), loops_b.size()); ++n) {
    const SassLoop none;
    const SassLoop &x = n < loops_a.size() ? loops_a[n] : none, &y = n < loops_b.size() ? loops_b[n] : none;
    auto title = [](const SassLoop& l) {
      return l.name.empty() ? "" : fmt::format("{}: {} instructions", l.name, l.instructions.size());
    };
    text += "\n" + fmt::format("{:{}}   {}\n", title(x), kWidth + 2, title(y));
    text += steps_side_by_side(steps(a, x), steps(b, y));
  }
  return text;
}

}  // namespace ptxbuilder::analysis
