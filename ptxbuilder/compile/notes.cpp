#include "ptxbuilder/compile/notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "ptxbuilder/compile/advisories.h"
#include "ptxbuilder/compile/defects.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder {
namespace {

constexpr Severity severities[] = {Severity::info, Severity::warning, Severity::error, Severity::fatal};

// Returns the number after the first `before` in `text`, if there is one.
std::optional<uint32_t> number_after(std::string_view text, std::string_view before) {
  size_t at = text.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  uint32_t value;
  const char* begin = text.data() + at + before.size();
  if (std::from_chars(begin, text.data() + text.size(), value).ec != std::errc{}) return std::nullopt;
  return value;
}

// Returns the number directly before the first `after` in `text`, or 0 if there is none.
uint32_t number_before(std::string_view text, std::string_view after) {
  size_t end = text.find(after);
  if (end == std::string_view::npos) return 0;
  size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1]))) --begin;
  uint32_t value = 0;
  std::from_chars(text.data() + begin, text.data() + end, value);
  return value;
}

// Returns the name after "function " in a message, with or without quotes, as in "in function 'k'" and "in
// function k. Try".
std::string function_named(std::string_view text) {
  size_t at = text.rfind("function ");  // the last, as in "crossing function boundary in the function 'k'"
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + 9);
  if (text.starts_with('\'')) text.remove_prefix(1);
  return std::string(text.substr(0, text.find_first_of("' .,\n")));
}

// Parses a line such as "ptxas /dev/stdin, line 12; error : text". Returns nothing if the line is not a
// message. Messages of the driver contain "ptxas application ptx input" instead of the file.
std::optional<Note> parse_message(std::string_view line) {
  if (!line.starts_with("ptxas")) return std::nullopt;
  for (Severity severity : severities) {
    std::string_view word = name(severity);
    for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
      size_t colon = line.find_first_not_of(' ', at + word.size());
      if (line[at - 1] != ' ' || colon == std::string_view::npos || line[colon] != ':') continue;
      std::string_view head = line.substr(0, at), text = line.substr(colon + 1);
      text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
      Note note;
      note.severity = severity;
      note.text = text;
      note.ptx_line = head.ends_with("; ") ? number_after(head, ", line ").value_or(0) : 0;
      return note;
    }
  }
  return std::nullopt;
}

// Sets the fields that are derived from the message's text: code, function, line, explanation.
void interpret(Note& note) {
  std::string printed;
  if (note.text.starts_with("(C")) {
    size_t close = note.text.find(") ");
    if (close != std::string::npos) {
      printed = note.text.substr(1, close - 1);
      note.text.erase(0, close + 2);
    }
  }
  const Advisory* advisory = find_advisory(note.text);
  note.code = advisory && !advisory->code.empty() ? std::string(advisory->code) : printed;
  if (!printed.empty() && note.code != printed)
    note.text += fmt::format(" [{} in this version of ptxas]", printed);
  if (advisory) note.explanation = advisory->explanation;

  note.function = function_named(note.text);
  for (std::string_view before : {"around line ", "in line ", "at line "}) {
    if (note.ptx_line == 0) note.ptx_line = number_after(note.text, before).value_or(0);
  }
  if (advisory && note.ptx_line == 0) note.opcode = advisory->opcode;
}

// Returns the message without its line number. Without line numbers, duplicate messages compare equal.
std::string without_line(std::string text) {
  for (std::string_view before : {"around line ", "in line ", "at line "}) {
    size_t at = text.find(before);
    if (at == std::string::npos) continue;
    size_t begin = at + before.size(), end = begin;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    text.erase(begin, end - begin);
  }
  return text;
}

bool same(const Note& a, const Note& b) {
  return a.severity == b.severity && a.code == b.code && a.source == b.source && a.function == b.function &&
         (a.source || a.severity < Severity::error || a.ptx_line == b.ptx_line) &&
         without_line(a.text) == without_line(b.text);
}

// Parses the statistics of `ptxas -v`, which prints several lines for each function.
class Statistics {
 public:
  explicit Statistics(std::vector<FunctionUse>& functions) : functions_(functions) {}

  // Parses a line. Returns false if the line is not a part of the statistics.
  bool take(std::string_view line) {
    if (line.find("Compiling entry function") != std::string_view::npos) {
      entry_ = function_named(line);
      use(entry_).entry = true;
    } else if (size_t at = line.find("Function properties for "); at != std::string_view::npos) {
      properties_of_ = line.substr(at + 24);
    } else if (line.find("bytes stack frame") != std::string_view::npos) {
      FunctionUse& function = use(properties_of_);
      function.stack_bytes = number_before(line, " bytes stack frame");
      function.spill_store_bytes = number_before(line, " bytes spill stores");
      function.spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (line.find(": Used ") != std::string_view::npos) {
      FunctionUse& function = use(entry_);
      function.registers = number_before(line, " registers");
      function.barriers = number_before(line, " barriers");
      function.shared_bytes = number_before(line, " bytes smem");
      function.stack_bytes =
          std::max(function.stack_bytes, number_before(line, " bytes cumulative stack size"));
    } else {
      return line.find(" bytes gmem") != std::string_view::npos ||
             line.find(": Compile time = ") != std::string_view::npos;
    }
    return true;
  }

 private:
  FunctionUse& use(const std::string& name) {
    auto found = std::find_if(functions_.begin(), functions_.end(),
                              [&](const FunctionUse& function) { return function.name == name; });
    if (found != functions_.end()) return *found;
    functions_.push_back({});
    functions_.back().name = name;
    return functions_.back();
  }

  std::vector<FunctionUse>& functions_;
  std::string entry_, properties_of_;
};

}  // namespace

std::string_view name(Severity severity) {
  constexpr std::string_view names[] = {"info", "warning", "error", "fatal"};
  return names[static_cast<int>(severity)];
}

std::string Notes::entry() const {
  auto found =
      std::find_if(functions.begin(), functions.end(), [](const FunctionUse& use) { return use.entry; });
  return found == functions.end() ? "" : found->name;
}

bool Notes::failed() const {
  return std::any_of(messages.begin(), messages.end(),
                     [](const Note& note) { return note.severity >= Severity::error; });
}

uint32_t Notes::registers() const {
  uint32_t most = 0;
  for (const FunctionUse& function : functions) most = std::max(most, function.registers);
  return most;
}

uint32_t Notes::spill_bytes() const {
  uint32_t sum = 0;
  for (const FunctionUse& function : functions) sum += function.spill_store_bytes + function.spill_load_bytes;
  return sum;
}

uint32_t Notes::stack_bytes() const {
  uint32_t most = 0;
  for (const FunctionUse& function : functions) most = std::max(most, function.stack_bytes);
  return most;
}

Notes parse_notes(std::string_view log, std::string_view ptx) {
  Notes notes;
  Statistics statistics(notes.functions);
  std::optional<LineMap> lines;  // created when a message needs it
  while (!log.empty()) {
    size_t end = std::min(log.find('\n'), log.size());
    std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (statistics.take(line)) continue;
    std::optional<Note> note = parse_message(line);
    if (!note) continue;

    interpret(*note);
    if (note->ptx_line > 0 || !note->opcode.empty()) {
      if (!lines) lines.emplace(ptx);
      if (note->ptx_line == 0) note->ptx_line = lines->first(note->function, note->opcode);
      note->source = lines->at(note->ptx_line);
    }
    auto twin = std::find_if(notes.messages.begin(), notes.messages.end(),
                             [&](const Note& other) { return same(other, *note); });
    if (twin == notes.messages.end()) {
      notes.messages.push_back(std::move(*note));
    } else {
      ++twin->count;
    }
  }
  return notes;
}

std::string to_string(const Note& note) {
  std::string text = fmt::format("ptxas {}", name(note.severity));
  if (!note.code.empty()) text += " " + note.code;
  if (note.source) text += fmt::format(" {} {}", note.opcode.empty() ? "at" : "near", to_string(note.source));
  if (note.count > 1) text += fmt::format(" ({} times)", note.count);
  text += ": " + note.text;
  while (text.ends_with('.')) text.pop_back();
  if (note.ptx_line > 0 && note.opcode.empty()) text += fmt::format(" (PTX line {})", note.ptx_line);
  if (note.ptx_line > 0 && !note.opcode.empty()) {
    text += fmt::format(" (its first {} is PTX line {})", note.opcode, note.ptx_line);
  }
  return text + "." + (note.explanation.empty() ? "" : " " + note.explanation);
}

std::vector<std::string> waiver_names() {
  std::vector<std::string> names;
  for (const Advisory& advisory : advisories()) {
    if (advisory.code.starts_with("C75")) names.emplace_back(advisory.code);
  }
  for (const Defect& defect : all_defects())
    if (!defect.instruction.empty()) names.emplace_back(defect.name);
  names.push_back("spills");
  names.push_back("stack");
  return names;
}

std::vector<Cost> costs_of(const Notes& notes) {
  std::vector<Cost> costs;
  for (const Note& note : notes.messages)
    if (note.code.starts_with("C75")) costs.push_back({note.code, to_string(note)});
  for (const FunctionUse& f : notes.functions) {
    if (f.spill_store_bytes + f.spill_load_bytes > 0)
      costs.push_back(
          {"spills",
           fmt::format("{} bytes of spill stores and {} bytes of spill loads in function '{}'{}. Keep fewer "
                       "values alive at a time, use a smaller tile, or raise the registers of a thread "
                       "(fewer threads, .maxnreg, setmaxnreg).",
                       f.spill_store_bytes, f.spill_load_bytes, f.name,
                       f.registers > 0 ? fmt::format(", which uses {} registers", f.registers) : "")});
    if (f.stack_bytes > 0)
      costs.push_back(
          {"stack", fmt::format("{} bytes of stack in function '{}'. Local memory comes from spilled "
                                "registers, arrays indexed by runtime values, and calls.",
                                f.stack_bytes, f.name)});
  }
  return costs;
}

void check(const Notes& notes, std::span<const std::string> waived) {
  const std::string kernel = notes.entry();
  const std::vector<std::string> valid = waiver_names();
  for (const std::string& waiver : waived) {
    const bool is_known = std::ranges::find(valid, waiver) != valid.end() ||
                          std::ranges::any_of(notes.messages, [&](const Note& note) {
                            return waiver.starts_with("C75") && note.code == waiver;
                          });
    if (!is_known)
      throw Error(fmt::format("kernel '{}': '{}' cannot be waived; valid names are {}", kernel, waiver,
                              fmt::join(valid, ", ")));
  }
  std::string faults;
  for (const Cost& cost : costs_of(notes))
    if (std::ranges::find(waived, cost.waiver) == waived.end())
      faults += fmt::format("\n  {} To accept it, waive \"{}\".", cost.text, cost.waiver);
  if (!faults.empty())
    throw Error(fmt::format("kernel '{}': ptxas reports what costs performance:{}", kernel, faults));
}

}  // namespace ptxbuilder
