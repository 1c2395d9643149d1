// Records who holds each of the 16 thread barriers of a CTA (PTX ISA, bar).
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ptxbuilder/error.h"

namespace ptxbuilder {

// Barrier 0 is for the CTA's sync_threads(). Each of the others is held by whoever takes it first, or by the
// author's instructions that name its number; nobody else can then take it.
class BarrierIds {
 public:
  // Returns a free barrier for `holder`. Throws Error that lists the holders if all are taken. The last half
  // is handed out first, because the barrier numbers of warpgroups begin with 1.
  int take(const std::string& holder);

  // Takes barrier `id` for `holder`, who may hold it already. Throws Error if somebody else holds it.
  void take(int id, const std::string& holder);

  // Looks for barriers that the instructions in `text` name by number. Throws Error if one of them is held.
  void check_text(std::string_view text);

  // While this object lives, the instructions that are emitted belong to a holder.
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
