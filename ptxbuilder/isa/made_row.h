// A row whose text is made by a function of axes, at compile time or at run time.
#pragma once

#include <initializer_list>

#include "ptxbuilder/isa/row.h"

namespace ptxbuilder::isa {

// Text that is put together from strings and numbers.
class Text {
 public:
  struct Piece {
    constexpr Piece(std::string_view t) : text(t) {}        // NOLINT
    constexpr Piece(const char* t) : text(t) {}             // NOLINT
    constexpr Piece(const Text& t) : text(t.view()) {}      // NOLINT
    constexpr Piece(int n) : number(n), is_number(true) {}  // NOLINT
    std::string_view text = {};
    int number = 0;
    bool is_number = false;
  };

  constexpr Text(std::initializer_list<Piece> pieces) { add(pieces); }
  constexpr void add(std::initializer_list<Piece> pieces) {
    for (const Piece& piece : pieces) {
      if (piece.is_number) {
        add(piece.number);
        continue;
      }
      const char* from = piece.text.data();
      const size_t end = size_ + piece.text.size();
      if (end > kCapacity) throw "the text of a row is too long for isa::Text";
      while (size_ < end) characters_[size_++] = *from++;
    }
  }
  constexpr std::string_view view() const { return {characters_, size_}; }

 private:
  static constexpr size_t kCapacity = 256;

  constexpr void add(int number) {
    if (number < 0) add({"-"});
    if (const int rest = number / 10) add(rest < 0 ? -rest : rest);
    const int digit = number % 10;
    const char character = static_cast<char>('0' + (digit < 0 ? -digit : digit));
    add({std::string_view(&character, 1)});
  }

  char characters_[kCapacity] = {};
  size_t size_ = 0;
};

// A row with its own text.
struct MadeRow {
  Text name;
  Text syntax;
  Effect effect;
  int ptx_version;
  Sm sm;

  constexpr Row row() const { return {name.view(), syntax.view(), effect, ptx_version, sm}; }
};

namespace detail {

// The row that `make` makes of `form`.
template <auto make, auto form>
inline constexpr MadeRow made = make(form);
template <auto make, auto form>
inline constexpr Row constant = made<make, form>.row();

}  // namespace detail

}  // namespace ptxbuilder::isa
