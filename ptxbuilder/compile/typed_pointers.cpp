#include "ptxbuilder/compile/typed_pointers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace ptxbuilder {
namespace {

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' || c == '$';
}

// Copies text, and parses a type at each position at which a type may begin.
class Rewriter {
 public:
  explicit Rewriter(std::string_view text) : text_(text) {}

  std::string run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ';')
        copy(std::min(text_.find('\n', at_), text_.size()));
      else if (c == '"')
        copy(behind_string(at_));
      else if (c == '@' || c == '!' || c == '#' || c == '%' || c == '[' || c == '<' || c == '{' ||
               is_of_name(c))
        word_or_type();
      else
        copy(at_ + 1);
    }
    return std::move(out_);
  }

 private:
  // A type in the current syntax, and the offset at which it ends in the original text.
  struct Type {
    std::string text;
    size_t end;
    bool has_pointer;
  };

  void copy(size_t end) {
    out_ += text_.substr(at_, end - at_);
    at_ = end;
  }
  size_t behind_string(size_t at) const { return std::min(text_.find('"', at + 1), text_.size() - 1) + 1; }
  size_t behind_blanks(size_t at) const {
    while (at < text_.size() &&
           (text_[at] == ' ' || text_[at] == '\t' || text_[at] == '\n' || text_[at] == '\r'))
      ++at;
    return at;
  }
  size_t behind_word(size_t at) const {
    if (at < text_.size() && (text_[at] == '%' || text_[at] == '@' || text_[at] == '!' || text_[at] == '#'))
      ++at;
    if (at < text_.size() && text_[at] == '"') return behind_string(at);
    while (at < text_.size() && is_of_name(text_[at])) ++at;
    return at;
  }

  void word_or_type() {
    const std::optional<Type> type = type_at(at_, 0);
    if (type && type->has_pointer) {
      out_ += type->text;
      at_ = type->end;
    } else {
      copy(std::max(behind_word(at_), at_ + 1));
    }
  }

  std::string between(size_t begin, size_t end) const {
    return std::string(text_.substr(begin, end - begin));
  }

  // Returns the type that begins at offset `at`, or nothing if no type begins there. A name is parsed as a
  // type, even if it turns out to be the name of a value because no pointer follows.
  std::optional<Type> type_at(size_t at, int depth) const {
    constexpr int kDeepest = 1000;
    if (at >= text_.size() || depth > kDeepest) return std::nullopt;
    std::optional<Type> type = base_at(at, depth);
    while (type) {
      const size_t next = behind_blanks(type->end);
      if (next < text_.size() && text_[next] == '*') {
        type = Type{"ptr", next + 1, true};
      } else if (text_.substr(next).starts_with("addrspace(")) {
        const size_t close = text_.find(')', next);
        const size_t star = close == std::string_view::npos ? text_.size() : behind_blanks(close + 1);
        if (star >= text_.size() || text_[star] != '*') break;
        type = Type{"ptr " + between(next, close + 1), star + 1, true};
      } else if (next < text_.size() && text_[next] == '(') {
        const std::optional<Type> parameters = list_at(next, ')', depth);
        if (!parameters) break;
        type = Type{type->text + between(type->end, next) + parameters->text, parameters->end,
                    type->has_pointer || parameters->has_pointer};
      } else {
        break;
      }
    }
    return type;
  }

  std::optional<Type> base_at(size_t at, int depth) const {
    const char c = text_[at];
    if (c == '{') return list_at(at, '}', depth);
    if (c == '<' && at + 1 < text_.size() && text_[at + 1] == '{') {
      std::optional<Type> packed = list_at(at + 1, '}', depth);
      if (!packed || packed->end >= text_.size() || text_[packed->end] != '>') return std::nullopt;
      return Type{"<" + packed->text + ">", packed->end + 1, packed->has_pointer};
    }
    if (c == '[' || c == '<') {  // contains an element count, " x ", and the element type
      size_t next = behind_word(behind_blanks(at + 1));
      if (next == at + 1 || std::isdigit(static_cast<unsigned char>(text_[behind_blanks(at + 1)])) == 0)
        return std::nullopt;
      next = behind_blanks(next);
      if (next >= text_.size() || text_[next] != 'x') return std::nullopt;
      const size_t begin = behind_blanks(next + 1);
      const std::optional<Type> element = type_at(begin, depth + 1);
      if (!element) return std::nullopt;
      const size_t close = behind_blanks(element->end);
      if (close >= text_.size() || text_[close] != (c == '[' ? ']' : '>')) return std::nullopt;
      return Type{between(at, begin) + element->text + between(element->end, close + 1), close + 1,
                  element->has_pointer};
    }
    const size_t end = behind_word(at);
    const std::string_view word = text_.substr(at, end - at);
    static constexpr std::array<std::string_view, 9> kNames = {"void",  "half", "bfloat", "float",   "double",
                                                               "fp128", "ptr",  "label",  "metadata"};
    const bool is_integer =
        word.size() > 1 && word[0] == 'i' &&
        std::all_of(word.begin() + 1, word.end(), [](char d) { return d >= '0' && d <= '9'; });
    if (!is_integer && word[0] != '%' && std::find(kNames.begin(), kNames.end(), word) == kNames.end())
      return std::nullopt;
    return Type{std::string(word), end, false};
  }

  // Parses a list of types in brackets, separated by commas. The last element may be "...".
  std::optional<Type> list_at(size_t at, char close, int depth) const {
    Type all{std::string(1, text_[at]), at + 1, false};
    for (size_t next = behind_blanks(at + 1);;) {
      if (next >= text_.size()) return std::nullopt;
      all.text += between(all.end, next);
      if (text_[next] == close && all.text.find_last_not_of(" \t\r\n") == 0) {  // an empty list
        all.end = next + 1;
        all.text += close;
        return all;
      }
      if (text_.substr(next).starts_with("...")) {
        all.text += "...";
        all.end = next + 3;
      } else {
        const std::optional<Type> type = type_at(next, depth + 1);
        if (!type) return std::nullopt;
        all.text += type->text;
        all.end = type->end;
        all.has_pointer |= type->has_pointer;
      }
      next = behind_blanks(all.end);
      if (next >= text_.size() || (text_[next] != ',' && text_[next] != close)) return std::nullopt;
      all.text += between(all.end, next + 1);
      all.end = next + 1;
      if (text_[next] == close) return all;
      next = behind_blanks(next + 1);
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string without_typed_pointers(std::string_view ir) { return Rewriter(ir).run(); }

}  // namespace ptxbuilder
