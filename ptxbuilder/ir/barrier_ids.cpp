#include "ptxbuilder/ir/barrier_ids.h"

#include <fmt/format.h>

#include <cstdlib>

namespace ptxbuilder {
namespace {

constexpr int kLastWarpgroups = 8;  // number of warpgroups in a CTA of 1024 threads

bool continues_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '$' || c == '%';
}

// Returns the index of the barrier operand in an instruction that begins with `word`. The index is 1 for a
// reduction, whose result precedes the barrier, and otherwise 0. Returns -1 if the instruction has no barrier
// operand.
int barrier_operand(std::string_view word) {
  for (std::string_view family : {"bar.", "barrier."}) {
    if (!word.starts_with(family)) continue;
    word.remove_prefix(family.size());
    if (word.starts_with("cta.")) word.remove_prefix(4);
    if (word.starts_with("sync") || word.starts_with("arrive")) return 0;
    if (word.starts_with("red.")) return 1;
  }
  return -1;
}

}  // namespace

int BarrierIds::take(const std::string& holder) {
  auto try_take = [&](int id) {
    Entry& entry = entries_[static_cast<size_t>(id)];
    if (!entry.holder.empty()) return false;
    entry = {holder, Where::here()};
    return true;
  };
  for (int id = kLastWarpgroups + 1; id < static_cast<int>(entries_.size()); ++id)
    if (try_take(id)) return id;
  for (int id = kLastWarpgroups; id > 0; --id)
    if (try_take(id)) return id;
  std::string all;
  for (size_t id = 1; id < entries_.size(); ++id)
    all += fmt::format("{}{} {} ({})", id == 1 ? "" : ", ", id, entries_[id].holder,
                       to_string(entries_[id].where));
  throw Error(fmt::format("{}: all 15 barriers of a CTA other than that of sync_threads() are held: {}",
                          holder, all));
}

void BarrierIds::take(int id, const std::string& holder) {
  Entry& entry = entries_[static_cast<size_t>(id)];
  if (entry.holder.empty()) entry = {holder, Where::here()};
  if (entry.holder != holder)
    throw Error(fmt::format("barrier {} is needed for {}, but is held by {} ({}); let named_barrier() choose",
                            id, holder, entry.holder, to_string(entry.where)));
}

void BarrierIds::check_number(int id, std::string_view instruction) {
  if (id <= 0 || id >= static_cast<int>(entries_.size()))
    return;  // the barrier of sync_threads(), or a number that ptxas rejects
  Entry& entry = entries_[static_cast<size_t>(id)];
  constexpr std::string_view kNumber = "an instruction that names it";
  if (entry.holder.empty()) entry = {std::string(kNumber), Where::here()};
  if (entry.holder != kNumber)
    throw Error(fmt::format("{}: barrier {} is held by {} ({}); named_barrier() returns a free one",
                            instruction, id, entry.holder, to_string(entry.where)));
}

void BarrierIds::check_text(std::string_view text) {
  if (holders_) return;
  for (size_t at = text.find("bar"); at != std::string_view::npos; at = text.find("bar", at + 1)) {
    if (at > 0 && continues_word(text[at - 1])) continue;  // part of another word, such as mbarrier
    std::string_view rest = text.substr(at);
    size_t length = 0;
    while (length < rest.size() && continues_word(rest[length])) ++length;
    const std::string_view instruction = rest.substr(0, length);
    const int operand = barrier_operand(instruction);
    if (operand < 0) continue;
    rest.remove_prefix(length);
    rest = rest.substr(0, rest.find(';'));
    if (const size_t comma = rest.find(','); operand == 1 && comma != std::string_view::npos)
      rest.remove_prefix(comma + 1);
    const size_t begin = rest.find_first_not_of(" \t\n");
    if (begin == std::string_view::npos || rest[begin] < '0' || rest[begin] > '9') continue;
    const std::string number(rest.substr(begin, rest.find_first_of(", \t\n", begin) - begin));
    check_number(static_cast<int>(std::strtol(number.c_str(), nullptr, 0)), instruction);
  }
}

}  // namespace ptxbuilder
