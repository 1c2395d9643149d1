// Records who uses each of the 16 thread barriers of a CTA (PTX ISA, bar).
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ptxbuilder/error.h"

namespace ptxbuilder {

// Barrier 0 belongs to the CTA's sync_threads(). Every other barrier belongs to whoever takes it first, or to
// the instructions of the author that name its number; nobody else can then take it.
class BarrierIds {
 public:
  // Returns a free barrier for `holder`. Throws Error that lists the holders if all barriers are taken. The
  // upper half is handed out first, because the barriers of warpgroups are numbered from 1.
  int take(const std::string& holder);

  // Takes barrier `id` for `holder`, which may hold it already. Throws Error if another holder has it.
  void take(int id, const std::string& holder);

  // Looks for barriers that the instructions in `text` refer to by number. Throws Error if one of them is
  // taken.
  void check_text(std::string_view text);

  // Makes the instructions that are emitted while this object exists belong to a holder.
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
    std::string holder;  // empty if the barrier is free
    Where where;
  };
  void check_number(int id, std::string_view instruction);

  std::array<Entry, 16> entries_;
  bool holders_ = false;
};

}  // namespace ptxbuilder
