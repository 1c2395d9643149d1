#include "kernels/export/words.h"

#include <fmt/format.h>

#include <set>

#include "ptxbuilder/article.h"

namespace ptxbuilder::command {

using Kind = Parameter::Kind;

namespace {

// Returns whether a word is reserved in C or C++, or is a name that the exported code uses where the
// parameters are in scope.
bool is_reserved(const std::string& word) {
  static const std::set<std::string> words = {
      "alignas",   "alignof", "and",     "asm",       "auto",      "bool",    "break",    "case",
      "catch",     "char",    "class",   "const",     "continue",  "default", "delete",   "do",
      "double",    "else",    "enum",    "explicit",  "export",    "extern",  "false",    "float",
      "for",       "friend",  "goto",    "if",        "inline",    "int",     "long",     "mutable",
      "namespace", "new",     "not",     "operator",  "or",        "private", "public",   "register",
      "restrict",  "return",  "short",   "signed",    "sizeof",    "static",  "struct",   "switch",
      "template",  "this",    "throw",   "true",      "try",       "typedef", "typename", "union",
      "unsigned",  "using",   "virtual", "void",      "volatile",  "while",   "xor",      "NULL",
      "grid",      "stream",  "all",     "arguments", "launch_all"};
  return words.contains(word);
}

}  // namespace

std::string identifier(const std::string& name) {
  std::string word = name;
  for (char& c : word)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (std::isdigit(static_cast<unsigned char>(word[0]))) word.insert(0, "_");
  return is_reserved(word) ? word + "_" : word;
}

std::string in_comment(std::string text) {
  for (size_t at; (at = text.find("*/")) != std::string::npos;) text[at + 1] = ' ';
  return text;
}
std::string c_string(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

const char* c_type(DType type) {
  switch (type) {
    case DType::u8:
    case DType::e4m3:
    case DType::e5m2:
      return "uint8_t";
    case DType::s8:
      return "int8_t";
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return "uint16_t";
    case DType::s16:
      return "int16_t";
    case DType::u32:
      return "uint32_t";
    case DType::s32:
      return "int32_t";
    case DType::u64:
      return "uint64_t";
    case DType::s64:
      return "int64_t";
    case DType::f32:
    case DType::tf32:
      return "float";
    case DType::f64:
      return "double";
  }
  return "";
}
bool is_in_c(DType type) { return !is_float(type) || type == DType::f32 || type == DType::f64; }

std::string kind_in_comment(const Parameter& p) {
  switch (p.kind) {
    case Kind::scalar:
      return is_in_c(p.dtype) ? std::string(name(p.dtype)) : "the bits of " + with_article(name(p.dtype));
    case Kind::pointer:
      return fmt::format("{} on the device", name(p.dtype));
    case Kind::tensor_map:
      return fmt::format("a tensor of {} with {} dimension{}", name(p.dtype), p.tensor_map.rank(),
                         p.tensor_map.rank() == 1 ? "" : "s");
    case Kind::tensor_map_array:
      return fmt::format("tensor maps of {} on the device", name(p.dtype));
    case Kind::structure:
      return "a struct";
  }
  return "";
}

std::string declared(const Parameter& p) {
  if (p.kind == Kind::scalar) return fmt::format("{} ", c_type(p.dtype));
  return fmt::format("{}* ", is_in_c(p.dtype) && p.dtype != DType::u8 ? c_type(p.dtype) : "void");
}

std::string wrapped(const std::vector<std::string>& words, const std::string& indent) {
  std::string text, line;
  for (const std::string& word : words) {
    if (!line.empty() && line.size() + word.size() > 110) {
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      line = indent;
    }
    line += word;
  }
  return text + line;
}

}  // namespace ptxbuilder::command
