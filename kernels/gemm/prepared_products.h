// Products that were asked for before: a call that differs from one of them in addresses, in the values of
// alpha and beta and in the stream alone skips the checks that these do not change, which take most of the
// host's time.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

#include "kernels/gemm/matmul.h"
#include "kernels/gemm/words_hash.h"

namespace ptxbuilder::kernels {

// The arguments of a product's kernel, and where the value of each comes from.
class ProductArguments {
 public:
  enum class From : uint8_t { size, a, b, c, d, bias, workspace, alpha, beta };
  static constexpr size_t kMost = 16;  // of a product that may be prepared
  static constexpr size_t kMostOfAny = 32;

  // `more` than a product that may be prepared has.
  explicit ProductArguments(bool more) : list_(more ? kMostOfAny : kMost) {}

  template <class Make>
  void add(From from, Make&& make) {
    from_[count_++] = from;
    list_.add(std::forward<Make>(make));
  }
  std::span<const runtime::Argument> list() { return list_; }
  std::span<const From> from() const { return std::span(from_).first(count_); }

 private:
  runtime::ArgumentList list_;
  std::array<From, kMostOfAny> from_ = {};
  size_t count_ = 0;
};

// Any thread may call all functions at any time.
class PreparedProducts {
 public:
  PreparedProducts();

  // Queues a product that is known, where its addresses leave no doubt: all are multiples of 16 bytes, and
  // D's memory lies apart from what is read, or D is C. False: nothing was done, and all has to be checked.
  bool launch(const MatmulArguments& p);

  // Another number behind each clear().
  uint64_t number() const { return number_.load(std::memory_order_acquire); }

  // A product that was checked, whose kernel takes all operands where they lie, and was chosen when number()
  // was `number`. Nothing where clear() has come since: the kernel may be the one of before.
  void add(const MatmulArguments& p, runtime::PreparedLaunch launch, ProductArguments& arguments,
           uint64_t number);
  // A product that was checked and has nothing to do, for which launch() queues nothing.
  void add_empty(const MatmulArguments& p);

  // Forgets all of them: a product is to have another kernel from now on.
  void clear();

 private:
  // All of a product but its addresses, the stream, and the values of alpha and beta beyond 0 and 1.
  using Form = std::array<uint64_t, 19>;
  struct Known {
    std::optional<runtime::PreparedLaunch> launch;  // none where there is nothing to do
    std::vector<ProductArguments::From> from;
    std::vector<uint64_t> sizes;  // at the places of sizes
  };

  // Calls `take` with the number of each word of the product's form, and the word.
  template <class Take>
  static void words_of(const MatmulArguments& p, Take&& take);
  static Form form_of(const MatmulArguments& p);
  // With the lock held.
  void keep(const MatmulArguments& p, std::shared_ptr<const Known> known);
  // The thread keeps what it was given last, also behind the end of this object. nullptr: not known.
  const Known* find(const MatmulArguments& p);

  std::atomic<uint64_t> number_;  // of this object alone
  std::shared_mutex mutex_;
  std::unordered_map<Form, std::shared_ptr<const Known>, WordsHash> known_;
};

}  // namespace ptxbuilder::kernels
