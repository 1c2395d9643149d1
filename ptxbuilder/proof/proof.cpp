#include "ptxbuilder/proof/proof.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ptxbuilder/article.h"
#include "ptxbuilder/proof/image.h"

namespace ptxbuilder {
namespace {

using namespace detail;

class Prover {
 public:
  explicit Prover(const KernelRecord& record) : record_(record) {}

  Proof run() {
    for (size_t i = 0; i < record_.tiles.size() && proof_; ++i) prove_tile(static_cast<int>(i));
    for (const MmaRecord& mma : record_.mmas)
      if (proof_ && !mma.a) prove_registers_of_a(mma);
    for (const MmaRecord& mma : record_.mmas)
      if (proof_ && mma.is_sparse()) prove_metadata(mma);
    for (const WarpMmaRecord& mma : record_.warp_mmas)
      if (proof_) prove_warp_mma(mma);
    for (const StoreRecord& store : record_.stores)
      if (proof_) prove_store(store);
    return std::move(proof_);
  }

 private:
  using Images = std::vector<Image>;

  // Checks the writers of a tile, which produce the images of its stages, and then the readers.
  void prove_tile(int number) {
    const TileRecord& tile = record_.tiles[static_cast<size_t>(number)];
    Images images(static_cast<size_t>(tile.stages), Image(tile));
    bool written = false;
    auto copies = [&](bool stores) {
      for (const CopyRecord& copy : record_.copies)
        if (copy.view.tile == number && copy.is_store == stores && proof_) {
          // Copies from tiles whose contents are unknown use separate images.
          Images apart(static_cast<size_t>(tile.stages), Image(tile));
          take(try_copy(copy, tile, stores && !written ? apart : images, stores && written),
               text_of(copy, tile), copy.where);
          written |= !stores;
        }
    };
    auto thread_copies = [&](bool reads) {
      for (const ThreadCopyRecord& copy : record_.thread_copies) {
        if (copy.view.tile != number || reads != (copy.kind == ThreadCopyRecord::Kind::to_registers) ||
            !proof_)
          continue;
        if (reads && !written)
          skip(copy.text, tile);
        else
          prove_thread_copy(copy, tile, images);
        written |= !reads;
      }
    };
    copies(false);
    thread_copies(false);
    prove_readers(number, tile, images, written);
    thread_copies(true);
    copies(true);
  }

  void skip(const std::string& what, const TileRecord& tile) {
    leave(fmt::format("{} from {}: no copy fills it", what, with_article(tile.text)));
  }
  void leave(const std::string& text) {
    if (std::find(proof_.unproved.begin(), proof_.unproved.end(), text) == proof_.unproved.end())
      proof_.unproved.push_back(text);
  }

  void prove_readers(int number, const TileRecord& tile, const Images& images, bool written) {
    for (const MmaRecord& mma : record_.mmas)
      for (char name : {'A', 'B'}) {
        const OperandRecord* operand = name == 'B' ? &mma.b : mma.a ? &*mma.a : nullptr;
        if (operand == nullptr || operand->view.tile != number || !proof_) continue;
        if (written)
          take(try_operand(mma, name, tile, images), text_of(mma, name, tile), mma.where);
        else
          skip(fmt::format("mma: {}", name), tile);
      }
  }

  void prove_thread_copy(const ThreadCopyRecord& copy, const TileRecord& tile, Images& images) {
    Tried all;
    for (Element corner : corners(copy.view, tile))
      for (int stage = 0; stage < tile.stages && !all.counterexample; ++stage) {
        Tried tried = try_thread_copy(copy, tile, corner, stage, images[static_cast<size_t>(stage)]);
        all.counterexample = std::move(tried.counterexample);
        all.elements += tried.elements;
        all.bank_ways = std::max(all.bank_ways, tried.bank_ways);
      }
    take(std::move(all), fmt::format("{}, {}", copy.text, view_text(copy.view, tile)), copy.where);
  }

  void prove_registers_of_a(const MmaRecord& mma) {
    const bool loaded = std::all_of(mma.a_words.begin(), mma.a_words.end(),
                                    [](const LoadedWord& word) { return word.copy >= 0; });
    if (!loaded)
      return take(try_computed_a(mma),
                  fmt::format("mma: A in registers, {} x {} {}, computed as {}", mma.m, mma.k,
                              name(mma.a_type), mma.a_layout->describe()),
                  mma.where);
    take(try_registers_of_a(record_, mma),
         fmt::format("mma: A in registers, {} x {} {} of one view", mma.m, mma.k, name(mma.a_type)),
         mma.where);
  }

  void prove_metadata(const MmaRecord& mma) {
    take(try_metadata(record_, mma),
         fmt::format("mma: metadata of a sparse A in registers, {} x {} {} of one view", mma.m, mma.k,
                     name(mma.a_type)),
         mma.where);
  }

  void prove_warp_mma(const WarpMmaRecord& mma) {
    for (const auto* words : {&mma.a, &mma.b})
      for (const LoadedWord& word : *words)
        if (word.copy < 0) return leave("mma.sync: registers that no copy has loaded");
    take(try_warp_mma(record_, mma),
         fmt::format("mma.sync of {} x {} {}, each warp's A and B of one k", mma.m, mma.n, name(mma.a_type)),
         mma.where);
  }

  void prove_store(const StoreRecord& store) {
    const TileRecord& tile = record_.tiles[static_cast<size_t>(store.tile)];
    take(try_store(record_, store),
         fmt::format("store: accumulators{} -> {} -> {}: boxes of {}", store.transposed ? ", transposed" : "",
                     tile.text, store.pieces.at(0).copy.map,
                     fmt::join(store.pieces.at(0).copy.recipe.box, "x")),
         store.where);
  }

  // Records the result of a part of the proof. `text` describes the part.
  void take(Tried tried, std::string text, Where where) {
    if (tried.counterexample) {
      if (!proof_.counterexample) proof_.counterexample = std::move(tried.counterexample);
      return;
    }
    if (tried.bank_ways == 1) text += ", no bank conflicts";
    if (tried.bank_ways > 1) text += fmt::format(", {}-way bank conflicts", tried.bank_ways);
    add({std::move(text), tried.elements, where, tried.bank_ways});
  }

  // Adds a statement. Statements that belong to several lines, or to an unrolled loop, are reported as one
  // statement if their descriptions are equal.
  void add(Proof::Link link) {
    for (Proof::Link& known : proof_.links)
      if (known.text == link.text) {
        known.elements += link.elements;
        return;
      }
    proof_.links.push_back(std::move(link));
  }

  const KernelRecord& record_;
  Proof proof_;
};

std::string element_text(Element e) { return fmt::format("({}, {})", e.row, e.col); }

}  // namespace

std::string Counterexample::text() const {
  std::string text = operation;
  if (wanted) {
    text += fmt::format(": element {}", element_text(*wanted));
    if (wanted_at) text += fmt::format(", which is at byte {}", *wanted_at);
  }
  if (address) text += fmt::format(": {} at byte {}", puts ? "put" : "looked for", *address);
  if (found) text += fmt::format(", where {} is", element_text(*found));
  text += ": " + reason;
  if (where) text += fmt::format(" ({})", to_string(where));
  return text;
}

uint64_t Proof::elements() const {
  uint64_t sum = 0;
  for (const Link& link : links) sum += link.elements;
  return sum;
}

Proof prove(const KernelRecord& record) { return Prover(record).run(); }

}  // namespace ptxbuilder
