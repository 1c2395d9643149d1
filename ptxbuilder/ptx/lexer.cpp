#include "ptxbuilder/ptx/lexer.h"

#include <fmt/format.h>

#include "ptxbuilder/error.h"

namespace ptxbuilder::ptx_text {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool begins_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
bool continues_word(char c) { return (begins_word(c) && c != '%') || is_digit(c); }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    do {
      tokens.push_back(next());
    } while (tokens.back().kind != Token::Kind::end);
    return tokens;
  }

 private:
  char peek(size_t ahead = 0) const {
    return position_ + ahead < source_.size() ? source_[position_ + ahead] : '\0';
  }
  bool done() const { return position_ >= source_.size(); }

  void advance() {
    if (source_[position_++] == '\n') {
      ++at_.line;
      at_.column = 1;
    } else {
      ++at_.column;
    }
  }

  // Skips white space and comments. Returns the comments, and the lines of a C preprocessor.
  std::vector<std::string_view> skip_trivia() {
    std::vector<std::string_view> comments;
    while (!done()) {
      size_t start = position_;
      Position at = at_;
      if (is_space(peek())) {
        advance();
      } else if ((peek() == '/' && peek(1) == '/') || peek() == '#') {
        while (!done() && peek() != '\n') advance();
        std::string_view comment = source_.substr(start, position_ - start);
        while (is_space(comment.back())) comment.remove_suffix(1);
        comments.push_back(comment);
      } else if (peek() == '/' && peek(1) == '*') {
        advance();
        advance();
        while (!done() && !(peek() == '*' && peek(1) == '/')) advance();
        if (done()) fail(at, "the comment that begins here is not closed");
        advance();
        advance();
        comments.push_back(source_.substr(start, position_ - start));
      } else {
        break;
      }
    }
    return comments;
  }

  void skip_word() {
    while (!done() && continues_word(peek())) advance();
  }

  // Skips a dotted word, such as .b32, .2d, .shared::cta or .mbarrier::complete_tx::bytes.
  void skip_dotted() {
    advance();
    skip_word();
    while (peek() == ':' && peek(1) == ':') {
      advance();
      advance();
      skip_word();
    }
  }

  // Skips a number (PTX ISA, "Constants"), which is an integer with an optional U, a hexadecimal float with
  // 0f or 0d, or a decimal float.
  void skip_number() {
    if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X' || peek(1) == 'f' || peek(1) == 'F' ||
                          ((peek(1) == 'd' || peek(1) == 'D') && is_hex(peek(2))))) {
      const Position at = at_;
      const char kind = peek(1);
      advance();
      advance();
      const size_t first = position_;
      while (is_hex(peek())) advance();
      const size_t digits = position_ - first, wanted = kind == 'x' || kind == 'X'   ? 0
                                                        : kind == 'f' || kind == 'F' ? 8
                                                                                     : 16;
      if (wanted && digits != wanted)
        fail(at, fmt::format("0{} has {} hexadecimal digits after it, not {}", kind, digits, wanted));
    } else if (peek() == '0' && (peek(1) == 'b' || peek(1) == 'B')) {
      advance();
      advance();
      while (is_digit(peek())) advance();
    } else {
      while (is_digit(peek())) advance();
      if (peek() == '.' && (is_digit(peek(1)) || !begins_word(peek(1)))) {
        advance();
        while (is_digit(peek())) advance();
      }
      bool sign = peek(1) == '+' || peek(1) == '-';
      if ((peek() == 'e' || peek() == 'E') && is_digit(peek(sign ? 2 : 1))) {
        advance();
        if (sign) advance();
        while (is_digit(peek())) advance();
      }
    }
    if (peek() == 'U') advance();
  }

  void skip_text() {
    Position at = at_;
    advance();
    while (!done() && peek() != '"' && peek() != '\n') {
      if (peek() == '\\' && position_ + 1 < source_.size()) advance();
      if (peek() == '\n') break;
      advance();
    }
    if (peek() != '"') fail(at, "the string that begins here is not closed on its line");
    advance();
  }

  Token next() {
    Token token;
    token.comments = skip_trivia();
    token.at = at_;
    if (done()) return token;
    size_t start = position_;
    char c = peek();
    if (begins_word(c) && (c != '%' || continues_word(peek(1)))) {
      token.kind = Token::Kind::word;
      advance();
      skip_word();
    } else if (c == '.' && continues_word(peek(1))) {
      token.kind = Token::Kind::dotted;
      skip_dotted();
    } else if (is_digit(c)) {
      token.kind = Token::Kind::number;
      skip_number();
    } else if (c == '"') {
      token.kind = Token::Kind::text;
      skip_text();
    } else if (std::string_view(",;:()[]{}<>@!+-*/|&^~=?%").find(c) != std::string_view::npos) {
      token.kind = Token::Kind::punctuation;
      advance();
    } else {
      fail(at_, c >= ' ' && c <= '~'
                    ? fmt::format("'{}' does not begin a PTX token", c)
                    : fmt::format("byte 0x{:02x} does not begin a PTX token", static_cast<uint8_t>(c)));
    }
    token.text = source_.substr(start, position_ - start);
    return token;
  }

  std::string_view source_;
  size_t position_ = 0;
  Position at_{1, 1};
};

}  // namespace

void fail(Position at, const std::string& message) {
  throw Error(fmt::format("ptx {}:{}: {}", at.line, at.column, message));
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace ptxbuilder::ptx_text
