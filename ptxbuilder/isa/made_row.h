// Defines rows whose text is generated from axes, at compile time or at run time.
#pragma once

#include <initializer_list>

#include "ptxbuilder/isa/row.h"

namespace ptxbuilder::isa {

// Text built from patterns. Each `$` in a pattern is replaced with the next piece, a string or a number.
class Text {
 public:
  // A string or a number.
  struct Piece {
    constexpr Piece(std::string_view t) : text(t) {}        // NOLINT
    constexpr Piece(const char* t) : text(t) {}             // NOLINT
    constexpr Piece(const Text& t) : text(t.view()) {}      // NOLINT
    constexpr Piece(int n) : number(n), is_number(true) {}  // NOLINT
    std::string_view text = {};
    int number = 0;
    bool is_number = false;
  };

  constexpr Text() = default;
  constexpr Text(std::string_view pattern, std::initializer_list<Piece> pieces) { add(pattern, pieces); }
  // Appends the pattern with its pieces. Throws a `const char*` unless the number of pieces equals the number
  // of `$` in the pattern.
  constexpr void add(std::string_view pattern, std::initializer_list<Piece> pieces) {
    const Piece* next = pieces.begin();
    const char* from = pattern.data();
    for (const char* end = from + pattern.size(); from < end; ++from) {
      if (*from != '$') {
        put(from, 1);
        continue;
      }
      if (next == pieces.end()) throw "a pattern of isa::Text has more `$` than there are pieces";
      if (next->is_number)
        put(next->number);
      else
        put(next->text.data(), next->text.size());
      ++next;
    }
    if (next != pieces.end()) throw "a pattern of isa::Text has fewer `$` than there are pieces";
  }
  // Appends one character.
  constexpr void put(char c) { put(&c, 1); }
  constexpr std::string_view view() const { return {characters_, size_}; }

 private:
  static constexpr size_t kCapacity = 400;

  constexpr void put(const char* from, size_t count) {
    if (count > kCapacity - size_) throw "the text of a row is too long for isa::Text";
    for (const size_t end = size_ + count; size_ < end;) characters_[size_++] = *from++;
  }
  constexpr void put(int number) {
    if (number < 0) put("-", 1);
    if (const int rest = number / 10) put(rest < 0 ? -rest : rest);
    const int digit = number % 10;
    const char character = static_cast<char>('0' + (digit < 0 ? -digit : digit));
    put(&character, 1);
  }

  char characters_[kCapacity] = {};
  size_t size_ = 0;
};

// A row that owns its text.
struct MadeRow {
  Text name = {};
  Text syntax = {};
  Effect effect = Effect::memory;
  int ptx_version = 0;
  Targets targets = {};
  EarlyFloor early = {};

  // Returns the row. The row's text is valid for as long as this object exists.
  constexpr Row row(Names names = Names::none) const {
    return {name.view(), syntax.view(), effect, ptx_version, targets, {}, early, parse(syntax.view(), names)};
  }
};

namespace detail {

// The row that `make` returns for `form`.
template <auto make, auto form>
inline constexpr MadeRow made = make(form);
template <auto make, auto form>
inline constexpr Row constant = made<make, form>.row();

}  // namespace detail

}  // namespace ptxbuilder::isa
