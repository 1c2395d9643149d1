// Products that were asked for before: a call that differs from one of them in addresses, in the values of
// alpha and beta and in the stream alone skips the checks that these do not change, which take most of the
// host's time.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

#include "kernels/call/words_hash.h"
#include "kernels/gemm/matmul.h"

namespace ptxbuilder::kernels {

// The arguments of a launch, and where the value of each comes from.
class ProductArguments {
 public:
  // An operand of product.def comes behind `operand`, in its order.
  enum class From : uint8_t { size, a, b, d, workspace, alpha, beta, operand };
  static constexpr size_t kSources = static_cast<size_t>(From::operand) + product_operands.size();
  static constexpr From from_operand(ProductOperand which) {
    return static_cast<From>(static_cast<size_t>(From::operand) + static_cast<size_t>(which));
  }

  // The value of an argument: that of the source, and a number more, which is all of it where it comes from
  // the size.
  struct Source {
    From from;
    uint64_t more;
  };

  explicit ProductArguments(size_t most) : list_(most) { from_.reserve(most); }

  // The bytes by which an address lies behind its source.
  template <class Make>
  void add(From from, Make&& make, uint64_t behind = 0) {
    from_.push_back({from, behind});
    list_.add(std::forward<Make>(make));
  }
  std::span<const runtime::Argument> list() { return list_; }
  std::vector<Source> sources();

 private:
  runtime::ArgumentList list_;
  std::vector<Source> from_;
};

// Any thread may call all functions at any time.
class PreparedProducts {
 public:
  PreparedProducts();

  // Queues a product that is known, where its addresses leave no doubt: those of matrices are multiples of 16
  // bytes, others of 4, and what is written lies apart from all else, or D is C. False: nothing was done, and
  // all has to be checked.
  bool launch(const MatmulArguments& p);

  // Another number behind each clear().
  uint64_t number() const { return number_.load(std::memory_order_acquire); }

  // One of the launches of a product.
  struct Step {
    runtime::PreparedLaunch launch;
    std::vector<ProductArguments::Source> sources;  // by parameter
  };

  // No launch has more, of a product or of copies of its matrices.
  static constexpr size_t kMostArguments = 24 + 2 * product_operands.size();

  // Whether launch() looks for products with such addresses, which have no epilogue of the user's.
  static bool takes(const MatmulArguments& p);
  // A product that takes() and that was checked, whose kernel was chosen when number() was `number`. Nothing
  // where clear() has come since: the kernel may be the one of before.
  void add(const MatmulArguments& p, std::vector<Step> steps, uint64_t number);
  // A product that was checked and has nothing to do, for which launch() queues nothing.
  void add_empty(const MatmulArguments& p);

  // Forgets all of them: a product is to have another kernel from now on.
  void clear();

 private:
  // All of a product but its addresses, the stream, and the values of alpha and beta beyond 0 and 1.
  using Form = std::array<uint64_t, 16 + product_operands.size() + 2 * product_matrices>;
  using Known = std::vector<Step>;  // none where there is nothing to do

  // Calls `take` with the number of each word of the product's form, and the word.
  template <class Take>
  static void words_of(const MatmulArguments& p, Take&& take);
  static Form form_of(const MatmulArguments& p);
  static bool is_apart(const MatmulArguments& p);
  // With the lock held.
  void keep(const MatmulArguments& p, std::shared_ptr<const Known> known);
  // The thread keeps what it was given last, also behind the end of this object. nullptr: not known.
  const Known* find(const MatmulArguments& p);

  std::atomic<uint64_t> number_;  // of this object alone
  std::shared_mutex mutex_;
  std::unordered_map<Form, std::shared_ptr<const Known>, WordsHash> known_;
};

}  // namespace ptxbuilder::kernels
