#include "ptxbuilder/compile/line_map.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace ptxbuilder {
namespace {

constexpr std::string_view blanks = " \t\r";

// Returns whether a name may contain the character. Names consist of letters, digits, underscores, dollar
// signs, and the % of a register (PTX ISA, "Identifiers").
bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text;
}

// Removes a leading number from `text`, and returns the number, or 0 if there is none.
unsigned take_number(std::string_view& text) {
  text = trimmed(text);
  unsigned value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(end - text.data());
  return error == std::errc{} ? value : 0;
}

// Returns `ptx` with the characters of comments replaced by spaces. Line ends and quoted strings do not
// change.
std::string without_comments(std::string_view ptx) {
  std::string text(ptx);
  for (size_t i = 0, end; i < text.size(); i = end) {
    bool comment = true;
    if (text.compare(i, 2, "//") == 0) {
      end = text.find('\n', i);
    } else if (text.compare(i, 2, "/*") == 0) {
      end = text.find("*/", i + 2);
      if (end != std::string::npos) end += 2;
    } else {
      comment = false;
      end = i + 1;
      if (text[i] == '"') end = text.find_first_of("\"\n", end);
      if (text[i] == '"' && end != std::string::npos) ++end;
    }
    end = std::min(end, text.size());
    for (size_t at = i; comment && at < end; ++at) {
      if (text[at] != '\n') text[at] = ' ';
    }
  }
  return text;
}

// Returns the name that follows `directive`, such as ".entry", in `text`, possibly after a list of results in
// parentheses. Returns "" if there is no name.
std::string declared_name(std::string_view text, std::string_view directive) {
  size_t at = text.find(directive);
  if (at == std::string_view::npos) return "";
  text = trimmed(text.substr(at + directive.size()));
  if (text.starts_with('(')) text = trimmed(text.substr(std::min(text.find(')') + 1, text.size())));
  size_t end = 0;
  while (end < text.size() && is_name(text[end])) ++end;
  return std::string(text.substr(0, end));
}

}  // namespace

std::string to_string(const SourceLine& source) {
  return source.file.substr(source.file.find_last_of('/') + 1) + ":" + std::to_string(source.line);
}

LineMap::LineMap(std::string_view ptx) : text_(without_comments(ptx)) {
  Line current;   // function and `.loc` that apply to the current line
  int depth = 0;  // nesting depth of braces; functions begin and end at depth 0
  std::string_view rest = text_;
  while (!rest.empty()) {
    size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view text = current.text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));

    if (std::string_view directive = trimmed(text); directive.starts_with(".file")) {
      directive.remove_prefix(5);
      int number = take_number(directive);
      size_t open = directive.find('"'), close = directive.find('"', open + 1);
      if (close != std::string_view::npos) files_[number] = directive.substr(open + 1, close - open - 1);
    } else if (directive.starts_with(".loc") &&
               blanks.find(directive.substr(4, 1)) != std::string_view::npos) {
      directive.remove_prefix(4);
      current.file = take_number(directive);
      current.line = take_number(directive);
    } else {
      if (depth == 0) {
        std::string entry = declared_name(text, ".entry");
        if (first_entry_.empty()) first_entry_ = entry;
        std::string name = entry.empty() ? declared_name(text, ".func") : entry;
        if (!name.empty()) {
          current.function = functions_.size();
          functions_.push_back(name);
        }
      }
      for (char c : text) depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    }
    lines_.push_back(current);
    if (depth == 0 && text.find('}') != std::string_view::npos) current = {};
  }
}

SourceLine LineMap::at(int ptx_line) const {
  if (ptx_line < 1 || ptx_line > static_cast<int>(lines_.size())) return {};
  const Line& line = lines_[ptx_line - 1];
  auto file = files_.find(line.file);
  if (file == files_.end() || line.line == 0) return {};
  return {file->second, line.line};
}

int LineMap::first(std::string_view function, std::string_view opcode) const {
  for (size_t i = 0; i < lines_.size(); ++i) {
    const Line& line = lines_[i];
    if (line.function < 0 || (!function.empty() && functions_[line.function] != function)) continue;
    for (size_t at = line.text.find(opcode); at != std::string_view::npos;
         at = line.text.find(opcode, at + 1)) {
      char before = at == 0 ? ' ' : line.text[at - 1];
      char after = at + opcode.size() < line.text.size() ? line.text[at + opcode.size()] : ' ';
      if (!is_name(before) && before != '.' && !is_name(after)) return static_cast<int>(i + 1);
    }
  }
  return 0;
}

}  // namespace ptxbuilder
