// Keeps who holds each of the 16 barriers of threads that a CTA has (PTX ISA, bar).
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ptxbuilder/error.h"

namespace ptxbuilder {

// Barrier 0 is the CTA's, of sync_threads(). The others are held by whoever takes them, or by the author's
// instructions that give their number; what one holds the other is refused.
class BarrierIds {
 public:
  // A free one for `holder`. Throws Error that lists the holders when there is none. The last half comes
  // first: the numbers of warpgroups begin with 1.
  int take(const std::string& holder);

  // Number `id` for `holder`, who may hold it already. Throws Error when another does.
  void take(int id, const std::string& holder);

  // Looks for barriers that `text`, of instructions, names by number. Throws Error when one is held.
  void check_text(std::string_view text);

  // While it lives the instructions that are emitted are a holder's.
  class Holders {
   public:
    explicit Holders(BarrierIds& ids) : ids_(ids) { ids_.holders_ = true; }
    ~Holders() { ids_.holders_ = false; }
    Holders(const Holders&) = delete;

   private:
    BarrierIds& ids_;
  };

 private:
  struct Entry {
    std::string holder;  // empty: free
    Where where;
  };
  void check_number(int id, std::string_view instruction);

  std::array<Entry, 16> entries_;
  bool holders_ = false;
};

}  // namespace ptxbuilder
