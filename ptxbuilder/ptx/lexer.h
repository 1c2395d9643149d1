// Splits PTX text into tokens, each with its position and the comments that precede it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbuilder::ptx_text {

// Lines and columns are counted from 1. A column is one byte, so a tab counts as one column.
struct Position {
  uint32_t line = 0, column = 0;
};

struct Token {
  enum class Kind : uint8_t {
    word,         // add, %r1, $L__BB0_1, smem, _
    dotted,       // .visible, .b32, .shared::cta, .2d
    number,       // 12, 0x1fU, 8.6, 0f3F800000
    text,         // "file.cu", including its quotes
    punctuation,  // one of the characters , ; : ( ) [ ] { } < > @ ! + - * / | & ^ ~ = ? %
    end
  };

  Kind kind = Kind::end;
  std::string_view text;  // points into the source, which must outlive the token
  Position at;
  std::vector<std::string_view> comments;  // comments as they are written; a line comment does not include
                                           // its newline

  bool is(std::string_view spelling) const { return kind != Kind::text && text == spelling; }
};

// Throws an Error "ptx LINE:COLUMN: message".
[[noreturn]] void fail(Position at, const std::string& message);

// Returns the tokens of `source`; the last token has kind `end`. Throws an Error "ptx LINE:COLUMN: ..." for a
// byte that cannot begin a token, or for an unterminated string or comment.
std::vector<Token> tokenize(std::string_view source);

}  // namespace ptxbuilder::ptx_text
