// Tests contractions of named modes that become products. The forms of random contractions are executed on
// the host, compared with direct sums over the letters, and checked against TMA's rules. Also tests which
// modes fold, and which contractions are refused.
#include "kernels/gemm/contraction_form.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "contraction_kit.h"
#include "error_kit.h"
#include "kernels/call/operand.h"

namespace ptxbuilder::test::contraction_form_test {
using kernels::contraction;
using kernels::ContractionCopy;
using kernels::ContractionForm;
using kernels::ContractionTensors;
using kernels::ModeList;
using kernels::ProductMode;
using kernels::TensorForm;

namespace {

using Extents = std::map<char, int64_t>;

// Returns a tensor of `letters`. In memory, the modes are in the given order, beginning with the innermost.
TensorForm form(DType type, const std::string& letters, const std::string& order, const Extents& extents,
                int64_t gap = 0, char behind = 0) {
  LetterNumbers strides;
  int64_t stride = 1;
  for (const char letter : order) {
    strides[letter] = stride;
    stride = stride * extents.at(letter) + (letter == behind ? gap : 0);
  }
  TensorForm x{type, {}, {}};
  for (const char letter : letters)
    x.extents.push_back(extents.at(letter)), x.strides.push_back(strides[letter]);
  return x;
}

struct Drawn {
  std::string a, b, d, summed;
  Extents extents;
  ContractionTensors tensors;
  std::string subscripts() const { return a + "," + b + "->" + d; }
};

Drawn drawn(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t end) { return static_cast<int64_t>(random() % end); };
  Drawn c;
  std::string next = "abcdefghijkl", m, n, batch;
  const auto take = [&](std::string& to, int64_t count) {
    to = next.substr(0, static_cast<size_t>(count)), next = next.substr(static_cast<size_t>(count));
  };
  take(m, below(4)), take(n, below(4)), take(c.summed, below(3)), take(batch, below(3));
  for (const char letter : m + n + c.summed + batch) c.extents[letter] = std::array{1, 2, 3, 4, 8}[below(5)];
  const auto shuffled = [&](std::string letters) {
    std::ranges::shuffle(letters, random);
    return letters;
  };
  c.a = shuffled(m + c.summed + batch), c.b = shuffled(n + c.summed + batch), c.d = shuffled(m + n + batch);
  const DType type = std::array{DType::bf16, DType::bf16, DType::f16, DType::tf32, DType::e4m3}[below(5)];
  const auto tensor = [&](DType of, const std::string& letters) {
    const int64_t gap = below(3) == 0 ? 16 / size_of(of) * below(2) + below(2) : 0;
    TensorForm x = form(of, letters, shuffled(letters), c.extents, gap,
                        letters.empty() ? 0 : letters[static_cast<size_t>(below(letters.size()))]);
    x.is_aligned = below(6) != 0;
    return x;
  };
  c.tensors = {tensor(type, c.a), tensor(type, c.b), tensor(below(2) == 0 ? DType::f32 : DType::bf16, c.d)};
  return c;
}

// Calls `work` with the offsets in A, B and D of each element of the four axes.
template <class Work>
void each_of(const std::array<const ModeList*, 4>& lists, size_t list, size_t mode, std::array<int64_t, 3> at,
             Work&& work) {
  if (list == lists.size()) return work(at);
  if (mode == lists[list]->size()) return each_of(lists, list + 1, 0, at, work);
  const ProductMode& one = (*lists[list])[mode];
  for (int64_t i = 0; i < one.extent; ++i)
    each_of(lists, list, mode + 1, {at[0] + i * one.a, at[1] + i * one.b, at[2] + i * one.d}, work);
}
int64_t offset(const TensorForm& x, const std::string& letters, const LetterNumbers& index) {
  int64_t at = 0;
  for (size_t i = 0; i < letters.size(); ++i) at += index[letters[i]] * x.strides[i];
  return at;
}
int64_t elements(const TensorForm& x) {
  int64_t last = 0;
  for (size_t i = 0; i < x.extents.size(); ++i) last += (x.extents[i] - 1) * x.strides[i];
  return last + 1;
}
void copy_modes(const std::vector<ContractionCopy::Mode>& modes, size_t from, int64_t given, int64_t near,
                const std::function<void(int64_t, int64_t)>& work) {
  if (from == modes.size()) return work(given, near);
  for (int64_t i = 0; i < modes[from].extent; ++i)
    copy_modes(modes, from + 1, given + i * modes[from].given, near + i * modes[from].near, work);
}

// Returns D as the form computes it, in the caller's layout in memory.
std::vector<double> by_form(const ContractionForm& f, const Drawn& c,
                            const std::array<std::vector<double>, 3>& given) {
  std::array<std::vector<double>, 3> memory = given;
  for (const ContractionCopy& copy : f.copies) {
    const auto i = static_cast<size_t>(copy.operand);
    std::vector<double> near(static_cast<size_t>(copy.elements));
    copy_modes(copy.modes, 0, 0, 0, [&](int64_t from, int64_t to) {
      near.at(static_cast<size_t>(to)) = memory[i].at(static_cast<size_t>(from));
    });
    memory[i] = std::move(near);
  }
  for (double& x : memory[2]) x = 0;
  const size_t a = f.exchanged ? 1 : 0;
  each_of({&f.modes.m, &f.modes.n, &f.modes.k, &f.modes.batch}, 0, 0, {},
          [&](const std::array<int64_t, 3>& at) {
            memory[2].at(static_cast<size_t>(at[2])) +=
                memory[a].at(static_cast<size_t>(at[0])) * memory[1 - a].at(static_cast<size_t>(at[1]));
          });
  std::vector<double> d(static_cast<size_t>(elements(c.tensors[2])));
  const auto copied = std::ranges::find(f.copies, kernels::ContractionOperand::d, &ContractionCopy::operand);
  if (copied == f.copies.end()) return memory[2];
  copy_modes(copied->modes, 0, 0, 0, [&](int64_t to, int64_t from) {
    d.at(static_cast<size_t>(to)) = memory[2].at(static_cast<size_t>(from));
  });
  return d;
}

// Returns what TMA or the kernel would refuse in the form.
std::string broken_rule(const ContractionForm& f, const Drawn& c) {
  if (f.is_plain()) return "";
  const size_t a = f.exchanged ? 1 : 0;
  const auto check = [&](size_t tensor, int64_t ProductMode::*stride, const ModeList& along,
                         const ModeList& rows) {
    const int bytes = size_of(c.tensors[tensor].type);
    const size_t rank =
        std::max<size_t>(along.size(), 1) + std::max<size_t>(rows.size(), 1) + f.modes.batch.size();
    if (rank > 5) return fmt::format("{} dimensions", rank);
    for (const ModeList* list : {&along, &rows, &f.modes.batch})
      for (const ProductMode& mode : *list) {
        const bool is_first = list == &along && &mode == list->begin();
        if (is_first ? mode.*stride != 1 : mode.*stride * bytes % 16 != 0 || mode.*stride == 0)
          return fmt::format("a stride of {}", mode.*stride);
      }
    return std::string();
  };
  for (std::string why :
       {check(a, &ProductMode::a, f.a_k_major ? f.modes.k : f.modes.m, f.a_k_major ? f.modes.m : f.modes.k),
        check(1 - a, &ProductMode::b, f.b_k_major ? f.modes.k : f.modes.n,
              f.b_k_major ? f.modes.n : f.modes.k),
        check(2, &ProductMode::d, f.modes.n, f.modes.m)})
    if (!why.empty()) return why;
  if (f.modes.m_box != 0 && !f.a_k_major) return "a box of m, which A is stored along";
  if (f.modes.n_box != 0 && !f.b_k_major) return "a box of n, which B is stored along";
  if (f.modes.k_box != 0 && f.modes.k.size() < 2) return "a box of k, which has one mode";
  return size_of(c.tensors[0].type) != 2 && !(f.a_k_major && f.b_k_major) ? "k is not innermost" : "";
}

TensorForm row_major(DType type, std::vector<int64_t> extents) {
  TensorForm x{type, extents, std::vector<int64_t>(extents.size())};
  int64_t stride = 1;
  for (size_t i = extents.size(); i-- > 0; stride *= extents[i]) x.strides[i] = stride;
  return x;
}
ContractionForm of(const std::string& subscripts, std::vector<int64_t> a, std::vector<int64_t> b,
                   std::vector<int64_t> d, DType type = DType::bf16) {
  return contraction(subscripts, {row_major(type, std::move(a)), row_major(type, std::move(b)),
                                  row_major(type == DType::bf16 ? type : DType::f32, std::move(d))});
}

}  // namespace

TEST_CASE("forms of drawn contractions are the sums by letters, and obey TMA's rules") {
  size_t plain = 0, folded = 0, copied = 0, boxed = 0;
  for (uint64_t seed = 1; seed <= 900; ++seed) {
    const Drawn c = drawn(seed);
    CAPTURE(c.subscripts());
    CAPTURE(seed);
    const ContractionForm f = contraction(c.subscripts(), c.tensors);
    CAPTURE(f.text);
    CHECK(broken_rule(f, c) == "");
    std::array<std::vector<double>, 3> given;
    for (size_t i = 0; i < 3; ++i) {
      given[i].resize(static_cast<size_t>(elements(c.tensors[i])));
      for (size_t j = 0; j < given[i].size(); ++j)
        given[i][j] = static_cast<double>((j * 7919 + i + seed) % 17) - 8;
    }
    std::vector<double> expected(given[2].size(), 0);
    const LetterNumbers extents = c.extents;
    LetterNumbers index;
    each_index(c.d, extents, index, [&] {
      each_index(c.summed, extents, index, [&] {
        expected[static_cast<size_t>(offset(c.tensors[2], c.d, index))] +=
            given[0][static_cast<size_t>(offset(c.tensors[0], c.a, index))] *
            given[1][static_cast<size_t>(offset(c.tensors[1], c.b, index))];
      });
    });
    CHECK(by_form(f, c, given) == expected);
    plain += f.is_plain() && f.copies.empty(), folded += !f.is_plain() && f.copies.empty();
    copied += !f.copies.empty(), boxed += f.modes.m_box != 0 || f.modes.n_box != 0;
  }
  for (const size_t some : {plain, folded, copied, boxed}) CHECK(some > 5);  // each kind occurs
}

TEST_CASE("what folds is a product of matrices, and is copied nowhere") {
  for (const auto& [subscripts, a, b, d] :
       {std::tuple{"mk,nk->mn", std::vector<int64_t>{300, 64}, std::vector<int64_t>{200, 64},
                   std::vector<int64_t>{300, 200}},
        {"mk,kn->mn", {304, 64}, {64, 200}, {304, 200}},
        {"km,nk->nm", {64, 304}, {200, 64}, {200, 304}},
        {"bmk,bnk->bmn", {5, 304, 64}, {5, 200, 64}, {5, 304, 200}},
        {"mbk,nbk->mbn", {304, 8, 64}, {200, 8, 64}, {304, 8, 200}},
        {"xymk,nmk->xyn", {4, 6, 8, 64}, {200, 8, 64}, {4, 6, 200}},
        {"abxyk,abnk->abxyn", {2, 3, 4, 6, 64}, {2, 3, 200, 64}, {2, 3, 4, 6, 200}},
        {"mk,k->m", {304, 64}, {64}, {304}},
        {"m,n->mn", {304}, {200}, {304, 200}}}) {
    const ContractionForm f = of(subscripts, a, b, d);
    CAPTURE(f.text);
    CHECK(f.is_plain());
    CHECK(f.copies.empty());
  }
  const ContractionForm several = of("xymk,nmk->xyn", {4, 6, 8, 64}, {200, 8, 64}, {4, 6, 200});
  CHECK(several.modes.m.extent() == 24);
  CHECK(several.modes.k.extent() == 512);
}

TEST_CASE("modes that do not fold are dimensions of a tensor map, in boxes where one is short") {
  // m consists of 'a' and 'b', which D has in reverse order.
  const ContractionForm short_modes = of("abk,nk->ban", {16, 48, 512}, {512, 512}, {48, 16, 512});
  CAPTURE(short_modes.text);
  CHECK(short_modes.copies.empty());
  CHECK(short_modes.modes.m.size() == 2);
  CHECK(short_modes.modes.m_box == 16);
  const ContractionForm long_modes = of("abk,nk->ban", {8, 512, 512}, {512, 512}, {512, 8, 512});
  CHECK(long_modes.modes.m.size() == 2);
  CHECK(long_modes.modes.m_box == 0);
  CHECK(long_modes.modes.m[0].extent == 512);
  // Both A and B are contiguous along 'k', and 'x' is at a different position in each of them.
  const ContractionForm depth = of("mxk,xnk->mn", {512, 16, 128}, {16, 512, 128}, {512, 512});
  CHECK(depth.copies.empty());
  CHECK(depth.modes.k.size() == 2);
  CHECK(depth.modes.k_box == 0);
  // Stages of 64 would extend beyond 96 and 8, whereas boxes of 32 x 2 do not.
  const ContractionForm boxes = of("mxk,xnk->mn", {2048, 24, 96}, {24, 2048, 96}, {2048, 2048});
  CHECK_MESSAGE(boxes.copies.empty(), boxes.text);
  CHECK(boxes.modes.k_box == 32);
  const ContractionForm rows = of("xkm,kxn->mn", {24, 16, 2048}, {16, 24, 2048}, {2048, 2048});
  CHECK_MESSAGE(rows.copies.empty(), rows.text);
  CHECK(rows.modes.k_box == 16);
}

TEST_CASE("an operand is copied where this takes less time than its rows that begin within sectors") {
  const auto of_depth = [](int64_t k) {
    return of("afbk,kfd->bad", {24, 16, 192, k}, {k, 16, 5504}, {192, 24, 5504});
  };
  const ContractionForm aligned = of_depth(128), within = of_depth(120);
  CHECK_MESSAGE(aligned.copies.empty(), aligned.text);
  REQUIRE_MESSAGE(within.copies.size() == 1, within.text);
  CHECK(within.copies[0].operand == kernels::ContractionOperand::a);
  CHECK(within.is_plain());
}

TEST_CASE("what TMA does not take is copied once, and said") {
  const ContractionForm batches_inside = of("mkb,nkb->mnb", {512, 512, 8}, {512, 512, 8}, {512, 512, 8});
  CHECK(batches_inside.copies.size() == 3);
  CHECK(batches_inside.text.find("A is copied: the batches 'b' are contiguous") != std::string::npos);
  const ContractionForm odd = of("mk,nk->mn", {512, 511}, {512, 511}, {512, 512});
  CHECK(odd.copies.size() == 2);
  CHECK(odd.text.find("a stride of 511 elements along 'm'") != std::string::npos);
  const ContractionForm f32 = of("km,nk->mn", {512, 512}, {512, 512}, {512, 512}, DType::tf32);
  CHECK(f32.copies.size() == 1);
  CHECK(f32.text.find("elements of 4 B must be contiguous along the depth") != std::string::npos);
}

TEST_CASE("wrong subscripts and extents are named") {
  CHECK_ERROR(of("mk", {1, 1}, {}, {}), "must have the form 'mk,nk->mn'");
  CHECK_ERROR(of("mk,nk", {1, 1}, {1, 1}, {}), "must have the form 'mk,nk->mn'");
  CHECK_ERROR(of("mk,nk,k->mn", {1, 1}, {1, 1}, {1, 1}), "',' of B; a mode must be a letter");
  CHECK_ERROR(of("m.k,nk->mn", {1, 1}, {1, 1}, {1, 1}), "'.' of A; a mode must be a letter");
  CHECK_ERROR(of("mk,nk->mn", {2, 3, 4}, {2, 3}, {2, 2}),
              "A is 'mk', with 2 modes, but the tensor has 3 dimensions");
  CHECK_ERROR(of("mk,nk->mn", {2, 3}, {2, 4}, {2, 2}), "mode 'k' has 4 elements in B, but 3 in A");
  CHECK_ERROR(of("mk,nk->mn", {2, 3}, {5, 3}, {2, 4}), "mode 'n' has 4 elements in D, but 5 in B");
  CHECK_ERROR(of("mmk,nk->mn", {2, 2, 3}, {5, 3}, {2, 5}), "mode 'm' is twice in A");
  CHECK_ERROR(of("mjk,nk->mn", {2, 7, 3}, {5, 3}, {2, 5}),
              "mode 'j' of 7 elements is only in A; sum over it first");
  CHECK_ERROR(of("mk,nk->mnx", {2, 3}, {5, 3}, {2, 5, 4}), "mode 'x' of 4 elements is only in D");
  TensorForm back = row_major(DType::bf16, {8, 8});
  back.strides[0] = -8;
  CHECK_ERROR(
      contraction("mk,nk->mn", {back, row_major(DType::bf16, {8, 8}), row_major(DType::bf16, {8, 8})}),
      "A has a stride of -8 elements along 'm'");
  CHECK(of("mk,nk->mn", {0, 3}, {5, 3}, {0, 5}).is_empty);
  CHECK(of("mk,nk->mn", {2, 0}, {5, 0}, {2, 5}).modes.k.extent() == 0);
}

}  // namespace ptxbuilder::test::contraction_form_test
