#include "kernels/gemm/contraction_form.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>

#include "kernels/call/operand.h"
#include "kernels/call/prepared_calls.h"

namespace ptxbuilder::kernels {
namespace {

constexpr std::array kNames = {"A", "B", "D"};
constexpr size_t kA = 0, kB = 1, kD = 2;
constexpr int64_t ProductMode::*kStride[] = {&ProductMode::a, &ProductMode::b, &ProductMode::d};
constexpr size_t kMostModes = 16;

// A mode of the contraction, or several modes merged into one. `letters` names them, innermost first.
struct Mode {
  std::string letters;
  ProductMode place;
  bool in[3] = {};
};
using Modes = std::vector<Mode>;

[[noreturn]] void refuse(Where where, const std::string& what) { throw Error(where, "contraction: " + what); }

// ---- Letters ----

std::array<std::string, 3> split_subscripts(std::string_view text, Where where) {
  std::array<std::string, 3> all;
  std::string plain;
  for (const char c : text)
    if (c != ' ') plain += c;
  const size_t arrow = plain.find("->"), comma = plain.find(',');
  if (arrow == std::string::npos || comma == std::string::npos || comma > arrow)
    refuse(where, fmt::format("'{}' must have the form 'mk,nk->mn', two operands and a result", text));
  all = {plain.substr(0, comma), plain.substr(comma + 1, arrow - comma - 1), plain.substr(arrow + 2)};
  for (size_t t = 0; t < 3; ++t)
    for (const char c : all[t])
      if (!std::isalpha(static_cast<unsigned char>(c)))
        refuse(where, fmt::format("'{}': '{}' of {}; a mode must be a letter, and there must be two operands",
                                  text, c, kNames[t]));
  return all;
}

Modes modes_of(std::string_view subscripts, const ContractionTensors& tensors, Where where) {
  const std::array<std::string, 3> letters = split_subscripts(subscripts, where);
  Modes modes;
  for (size_t t = 0; t < 3; ++t) {
    const TensorForm& x = tensors[t];
    if (letters[t].size() != x.extents.size() || x.strides.size() != x.extents.size())
      refuse(where, fmt::format("'{}': {} is '{}', with {} modes, but the tensor has {} dimensions",
                                subscripts, kNames[t], letters[t], letters[t].size(), x.extents.size()));
    for (size_t i = 0; i < letters[t].size(); ++i) {
      const std::string name(1, letters[t][i]);
      auto at = std::ranges::find(modes, name, &Mode::letters);
      if (at == modes.end()) {
        modes.push_back({name, {x.extents[i]}, {}});
        at = modes.end() - 1;
      }
      if (at->in[t])
        refuse(where, fmt::format("'{}': mode '{}' is twice in {}; take its diagonal first", subscripts, name,
                                  kNames[t]));
      if (at->place.extent != x.extents[i])
        refuse(where, fmt::format("'{}': mode '{}' has {} elements in {}, but {} in {}", subscripts, name,
                                  x.extents[i], kNames[t], at->place.extent, kNames[at->in[kA] ? kA : kB]));
      if (x.extents[i] < 0 || x.extents[i] >= int64_t{1} << 31)
        refuse(where, fmt::format("'{}': mode '{}' of {} has {} elements, but must have 0 to 2^31 - 1",
                                  subscripts, name, kNames[t], x.extents[i]));
      at->in[t] = true;
      at->place.*kStride[t] = x.strides[i];
    }
  }
  for (const Mode& mode : modes) {
    const int count = mode.in[kA] + mode.in[kB] + mode.in[kD];
    if (count > 1) continue;
    const size_t only = mode.in[kA] ? kA : mode.in[kB] ? kB : kD;
    refuse(where, fmt::format("'{}': mode '{}' of {} elements is only in {}; {}", subscripts, mode.letters,
                              mode.place.extent, kNames[only],
                              only == kD ? "D can only have modes of A and B" : "sum over it first"));
  }
  if (modes.size() > kMostModes)
    refuse(where, fmt::format("'{}': it has {} modes, but must have at most {}", subscripts, modes.size(),
                              kMostModes));
  return modes;
}

// Checks that the elements of D do not overlap: the stride of each mode must exceed the extent of memory that
// the modes with smaller strides cover together.
void check_apart_in_d(std::string_view subscripts, const Modes& modes, Where where) {
  Modes of_d;
  std::ranges::copy_if(modes, std::back_inserter(of_d),
                       [](const Mode& mode) { return mode.in[kD] && mode.place.extent > 1; });
  std::ranges::sort(of_d, {}, [](const Mode& mode) { return mode.place.d; });
  __int128 reach = 0;  // 128 bits hold products of strides below 2^63 and extents below 2^31
  for (const Mode& mode : of_d) {
    if (mode.place.d <= reach)
      refuse(where, fmt::format("'{}': D overlaps itself: it has a stride of {} elements along '{}', and the "
                                "modes of smaller strides reach {}",
                                subscripts, mode.place.d, mode.letters, static_cast<int64_t>(reach + 1)));
    reach += static_cast<__int128>(mode.place.extent - 1) * mode.place.d;
  }
}

// ---- One form: what is A, and what is copied ----

struct Axes {
  Modes m, n, k, batch;
  std::array<Modes*, 4> all() { return {&m, &n, &k, &batch}; }
  std::array<const Modes*, 4> all() const { return {&m, &n, &k, &batch}; }
};

struct Form {
  Axes axes;
  bool copied[3] = {};
  bool a_k_major = true, b_k_major = true;
  int m_box = 0, n_box = 0, k_box = 0;
  double depth = 1;  // factor by which k grows because stages extend beyond the ends of modes
  double microseconds = std::numeric_limits<double>::infinity();
  std::string refusal;  // empty if the form is accepted
};

int64_t extent_of(const Modes& modes) {
  return std::accumulate(modes.begin(), modes.end(), int64_t{1},
                         [](int64_t all, const Mode& mode) { return all * mode.place.extent; });
}

// Returns whether two modes can be merged. In each tensor that contains them and is not copied, `outer` must
// step to the place where `inner` ends.
bool folds(const Mode& inner, const Mode& outer, const bool (&copied)[3]) {
  for (size_t t = 0; t < 3; ++t)
    if (inner.in[t] && !copied[t] && outer.place.*kStride[t] != inner.place.*kStride[t] * inner.place.extent)
      return false;
  return inner.place.extent * outer.place.extent < int64_t{1} << 31;
}

void fold(Modes& modes, const bool (&copied)[3]) {
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < modes.size() && !again; ++i)
      for (size_t j = 0; j < modes.size() && !again; ++j)
        if (i != j && folds(modes[i], modes[j], copied)) {
          modes[i].letters += modes[j].letters;
          modes[i].place.extent *= modes[j].place.extent;
          modes.erase(modes.begin() + static_cast<ptrdiff_t>(j));
          again = true;
        }
  }
}

class Former {
 public:
  Former(const Modes& modes, const ContractionTensors& tensors) : modes_(modes), tensors_(tensors) {}

  // Returns the form with these operands copied. If `exchanged`, the product's A is the caller's B, and its B
  // is the caller's A.
  Form form(bool exchanged, const std::array<bool, 3>& copied) const {
    Form f;
    std::ranges::copy(copied, f.copied);
    const size_t a = exchanged ? kB : kA, b = exchanged ? kA : kB;
    for (const Mode& mode : modes_) {
      if (mode.place.extent == 1) continue;
      (mode.in[a] && mode.in[b] ? mode.in[kD] ? f.axes.batch : f.axes.k
       : mode.in[a]             ? f.axes.m
                                : f.axes.n)
          .push_back(mode);
    }
    for (Modes* axis : f.axes.all()) fold(*axis, f.copied);
    if (std::string refusal = settle(f, a, b); !refusal.empty()) {
      f.refusal = refusal;
      return f;
    }
    f.microseconds = cost(f, a, b);
    return f;
  }

 private:
  int bytes(size_t t) const { return size_of(tensors_[t].type); }
  bool takes_rows() const { return bytes(kA) == 2; }  // wgmma transposes operands only of 16-bit types

  // Moves the contiguous mode of A or B to the front of its axis, and sets `k_major` to whether it belongs to
  // k. Returns a description of the problem if the operand cannot be used in place.
  std::string settle_operand(Form& f, size_t t, Modes& own, bool& k_major) const {
    k_major = true;
    if (f.copied[t]) return "";
    for (Modes* axis : {&f.axes.k, &own})
      for (size_t i = 0; i < axis->size(); ++i) {
        if ((*axis)[i].place.*kStride[t] != 1) continue;
        k_major = axis == &f.axes.k;
        if (!k_major && !takes_rows())
          return fmt::format("'{}' is contiguous, but elements of {} B must be contiguous along the depth",
                             (*axis)[i].letters, bytes(t));
        std::rotate(axis->begin(), axis->begin() + static_cast<ptrdiff_t>(i),
                    axis->begin() + static_cast<ptrdiff_t>(i) + 1);
        return "";
      }
    for (const Mode& mode : f.axes.batch)
      if (mode.place.*kStride[t] == 1) return fmt::format("the batches '{}' are contiguous", mode.letters);
    return own.empty() && f.axes.k.empty() ? "" : "no mode is contiguous";
  }

  // Returns the reason why TMA cannot access a tensor in place, or an empty string if it can. `first` is the
  // contiguous mode.
  std::string check_strides(const Form& f, size_t t, const Mode* first, bool is_matrix) const {
    if (f.copied[t]) return "";
    if (t == kD && is_matrix) return "";  // Matmul can store any matrix
    if (!tensors_[t].is_aligned) return "it does not begin at a multiple of 16 B";
    const int64_t length = first ? first->place.extent : 1;
    if (t == kD && length * bytes(t) % kTma != 0)
      return fmt::format("{} elements of '{}' are not a multiple of 16 B", length,
                         first ? first->letters : "");
    for (const Modes* axis : f.axes.all())
      for (const Mode& mode : *axis) {
        if (!mode.in[t] || &mode == first) continue;
        const int64_t stride = mode.place.*kStride[t];
        if (stride * bytes(t) % kTma != 0 || stride < length || stride * bytes(t) >= kStrideEnd)
          return fmt::format(
              "a stride of {} elements along '{}', where {} are contiguous; for TMA, it must be a multiple "
              "of 16 B, below 2^40 B, and no shorter than these",
              stride, mode.letters, length);
      }
    return "";
  }

  std::string settle(Form& f, size_t a, size_t b) const {
    Axes& x = f.axes;
    // The mode that is contiguous in D must belong to n; these are its letters.
    std::string contiguous_in_d;
    if (!f.copied[kD]) {
      for (const Modes* axis : {&x.m, &x.batch})
        for (const Mode& mode : *axis)
          if (mode.place.d == 1)
            return fmt::format("D: '{}', of its rows or batches, is contiguous", mode.letters);
      const auto first = std::ranges::find_if(x.n, [](const Mode& mode) { return mode.place.d == 1; });
      if (first == x.n.end() && !x.n.empty()) return "D: no mode is contiguous";
      if (first != x.n.end()) contiguous_in_d = first->letters;
      std::rotate(x.n.begin(), first, first == x.n.end() ? first : first + 1);
    }
    if (std::string why = settle_operand(f, a, x.m, f.a_k_major); !why.empty())
      return fmt::format("{}: {}", kNames[a], why);
    const std::string k_of_a = f.a_k_major && !f.copied[a] && !x.k.empty() ? x.k[0].letters : "";
    if (std::string why = settle_operand(f, b, x.n, f.b_k_major); !why.empty())
      return fmt::format("{}: {}", kNames[b], why);
    if (!k_of_a.empty() && x.k[0].letters != k_of_a)
      return fmt::format("{}: '{}' is contiguous, but '{}' in {}", kNames[b], x.k[0].letters, k_of_a,
                         kNames[a]);
    if (!contiguous_in_d.empty() && x.n[0].letters != contiguous_in_d)
      return fmt::format("{}: '{}' is contiguous, but '{}' in D", kNames[b], x.n[0].letters, contiguous_in_d);
    // Boxes along n hold at least 16 bytes of D, since TMA copies units of 16 bytes.
    const bool m_fixed = !f.a_k_major, n_fixed = !f.b_k_major || !contiguous_in_d.empty();
    f.m_box = settle_rows(x.m, m_fixed, f.a_k_major, 1);
    f.n_box = settle_rows(x.n, n_fixed, f.b_k_major, std::max<int>(8, static_cast<int>(kTma) / bytes(kD)));
    const bool k_fixed = (f.a_k_major && !f.copied[a]) || (f.b_k_major && !f.copied[b]);
    settle_depth(f, k_fixed);
    return check(f, a, b);
  }

  std::string check(const Form& f, size_t a, size_t b) const {
    const Axes& x = f.axes;
    for (const Modes* axis : x.all())
      if (axis->size() > ModeList::kMost)
        return fmt::format(
            "{} modes of the rows, the columns, the depth or the batches do not fold, but there must be at "
            "most {}",
            axis->size(), ModeList::kMost);
    const auto rank = [&](const Modes& p, const Modes& q) {
      return std::max<size_t>(p.size(), 1) + std::max<size_t>(q.size(), 1) + x.batch.size();
    };
    const bool is_matrix = std::ranges::all_of(x.all(), [](const Modes* axis) { return axis->size() <= 1; });
    for (const auto& [t, along, rows] : {std::tuple{a, f.a_k_major ? &x.k : &x.m, f.a_k_major ? &x.m : &x.k},
                                         {b, f.b_k_major ? &x.k : &x.n, f.b_k_major ? &x.n : &x.k},
                                         {kD, &x.n, &x.m}}) {
      if (const size_t all = rank(*along, *rows); all > Operand::kMostOuter + 1)
        return fmt::format("{}: {} modes do not fold; a tensor map has at most 5", kNames[t], all);
      if (std::string why = check_strides(f, t, along->empty() ? nullptr : &(*along)[0], is_matrix);
          !why.empty())
        return fmt::format("{}: {}", kNames[t], why);
    }
    return "";
  }

  static ModeList list_of(const Modes& modes) {
    ModeList list;
    for (const Mode& mode : modes)
      if (list.size() < ModeList::kMost) list.add(mode.place);
    return list;
  }

  static constexpr int kTile = 128;  // number of rows or columns in a typical tile
  static constexpr int kStageBytes = 128;
  // Returns the factor by which a product takes longer because tiles extend beyond the ends of modes, or
  // because a short first mode limits the size of tiles.
  static double padded(const Modes& modes, int box) {
    const bool is_short = modes.size() > 1 && box == 0 && modes[0].place.extent <= kTile;
    return static_cast<double>(tiles_along(list_of(modes), box, kTile)) * kTile * (is_short ? 1.1 : 1) /
           static_cast<double>(extent_of(modes));
  }
  // Reorders the modes so that tiles extend along the first, and perhaps the second, with the least waste,
  // and returns the size of the box. If `fixed`, the first mode remains first.
  static int settle_rows(Modes& modes, bool fixed, bool may_box, int least) {
    if (modes.size() < 2 || modes.size() > ModeList::kMost) return 0;
    Modes best = modes;
    int best_box = 0;
    double least_padded = std::numeric_limits<double>::infinity();
    const auto by_letters = [](const Mode& x, const Mode& y) { return x.letters < y.letters; };
    Modes order = modes;
    std::sort(order.begin() + fixed, order.end(), by_letters);
    do {
      for (int box : {0, 128, 64, 32, 16, 8, 4, 2, 1}) {
        if (box != 0 && (!may_box || box < least)) break;
        // TMA is slower with narrow boxes.
        const double all = padded(order, box) * (box == 0 || box >= 32 ? 1 : box >= 8 ? 1.05 : 1.2);
        if (all < least_padded * 0.97) best = order, best_box = box, least_padded = all;
      }
    } while (std::next_permutation(order.begin() + fixed, order.end(), by_letters));
    modes = best;
    return best_box;
  }

  // Reorders the modes of k so that stages extend along the first, and perhaps the second, with the least
  // waste, and sets the box. If `fixed`, the first mode remains first.
  void settle_depth(Form& f, bool fixed) const {
    Modes order = f.axes.k;
    if (order.empty() || order.size() > ModeList::kMost) return;
    const int stage = kStageBytes / bytes(kA);
    const int along_k = f.a_k_major + f.b_k_major;
    // Returns the factor by which TMA, which needs about a cycle for each row of a box, slows products down
    // if boxes have rows of 64 or 32 bytes in shared memory. It was measured on an H100.
    const auto slower = [&](int box) {
      if (box == 0) return 1.0;
      if (along_k == 0) return 1.02;
      return box == stage / 2 ? 1.05 : along_k == 1 ? 1.4 : 2.0;
    };
    double least = std::numeric_limits<double>::infinity();
    const auto by_extent = [](const Mode& x, const Mode& y) { return x.place.extent > y.place.extent; };
    std::sort(order.begin() + fixed, order.end(), by_extent);
    do {
      for (const int box : {0, stage / 2, stage / 4}) {
        if (box != 0 && order.size() == 1) break;
        const auto all = static_cast<double>(tiles_along(list_of(order), box, stage) * stage);
        const double depth = slower(box) * all / static_cast<double>(extent_of(order));
        if (depth < 0.97 * least) least = f.depth = depth, f.axes.k = order, f.k_box = box;
      }
    } while (std::next_permutation(order.begin() + fixed, order.end(), by_extent));
  }

  // Returns the factor by which products take longer if an operand's rows begin within lines of 128 bytes, or
  // within sectors of 32 bytes, because TMA then requests more lines or sectors. Short rows of boxes suffer
  // most. The factors were measured on an H100 with random contractions, relative to products with aligned
  // rows.
  double misalignment(const Form& f, size_t t, bool k_major) const {
    if (f.copied[t]) return 1;
    int64_t all = 0;
    for (const Modes* axis : f.axes.all())
      for (const Mode& mode : *axis)
        if (mode.in[t] && mode.place.*kStride[t] != 1) all = std::gcd(all, mode.place.*kStride[t] * bytes(t));
    const int64_t aligned = std::gcd(all, int64_t{128});
    if (aligned >= 64) return 1;
    const bool is_boxed = f.k_box != 0 && f.k_box * bytes(t) > aligned;
    if (k_major) return aligned < 32 ? is_boxed ? 2.4 : 1.08 : is_boxed ? 1.3 : 1.05;
    return aligned < 32 ? 1.07 : 1.02;
  }

  static constexpr double kBandwidth = 2.7e6;  // bytes per microsecond
  static constexpr double kCopyStart =
      4;  // microseconds of a copy, in addition to the time for moving its bytes
  // Returns the estimated time of a form in microseconds, accurate enough to choose between forms.
  double cost(const Form& f, size_t a, size_t b) const {
    const Axes& x = f.axes;
    const double teraflops = bytes(kA) == 1 ? 1330 : bytes(kA) == 2 ? 690 : 345;
    const double m = static_cast<double>(extent_of(x.m)), n = static_cast<double>(extent_of(x.n)),
                 k = static_cast<double>(extent_of(x.k)), batch = static_cast<double>(extent_of(x.batch));
    const double rows = padded(x.m, f.m_box), columns = padded(x.n, f.n_box);
    const double multiply = 2 * m * n * k * batch * f.depth * rows * columns *
                            misalignment(f, a, f.a_k_major) * misalignment(f, b, f.b_k_major) / teraflops /
                            1e6;
    const double size[] = {m * k * batch * bytes(a), n * k * batch * bytes(b), m * n * batch * bytes(kD)};
    double microseconds = std::max(multiply, (size[0] + size[1] + size[2]) / kBandwidth);
    const bool copied[] = {f.copied[a], f.copied[b], f.copied[kD]};
    for (size_t i = 0; i < 3; ++i)
      if (copied[i]) microseconds += kCopyStart + 2 * size[i] / kBandwidth;
    return microseconds;
  }

  const Modes& modes_;
  const ContractionTensors& tensors_;
};

// ---- The copies ----

// Determines the layout of a copy of tensor `t`. The first mode of `along` is contiguous and padded to a
// multiple of 16 bytes; the other modes follow without gaps.
ContractionCopy laid_out(Axes& axes, const Modes& modes, size_t t, Modes& along, Modes& rows, int bytes) {
  ContractionCopy copy{static_cast<ContractionOperand>(t), {}, 0, ""};
  std::vector<Mode*> order;
  for (Modes* axis : {&along, &rows, &axes.batch})
    for (Mode& mode : *axis) order.push_back(&mode);
  const bool has_row = !along.empty();
  int64_t stride = has_row ? 1 : kTma / bytes;
  for (size_t i = 0; i < order.size(); ++i) {
    order[i]->place.*kStride[t] = stride;
    int64_t inner = stride;
    for (const char letter : order[i]->letters) {
      const Mode& one = *std::ranges::find(modes, std::string(1, letter), &Mode::letters);
      copy.modes.push_back({one.place.extent, one.place.*kStride[t], inner});
      inner *= one.place.extent;
    }
    stride = i == 0 && has_row ? round_up(inner, kTma / bytes) : inner;
  }
  copy.elements = stride;
  return copy;
}

std::string axis_text(const char* name, const Modes& modes, int box) {
  std::vector<std::string> all;
  for (const Mode& mode : modes) all.push_back(fmt::format("'{}' of {}", mode.letters, mode.place.extent));
  std::string text =
      fmt::format("{} is {}", name, all.empty() ? "1" : fmt::format("{}", fmt::join(all, " x ")));
  if (box != 0) text += fmt::format(" in boxes of {}", box);
  return text;
}

}  // namespace

bool ContractionForm::is_plain() const {
  return modes.m.size() <= 1 && modes.n.size() <= 1 && modes.k.size() <= 1 && modes.batch.size() <= 1;
}

ContractionForm contraction(std::string_view subscripts, const ContractionTensors& tensors, bool is_zero,
                            Where where) {
  const Modes modes = modes_of(subscripts, tensors, where);
  ContractionForm form;
  for (const Mode& mode : modes) {
    if (mode.place.extent == 0 && mode.in[kD]) form.is_empty = true;
    is_zero |= mode.place.extent == 0 && !mode.in[kD];
  }
  if (form.is_empty) return form;
  for (const Mode& mode : modes) {
    for (size_t t = 0; t < 3; ++t)
      if (mode.in[t] && mode.place.extent > 1 && mode.place.*kStride[t] < (t == kD ? 1 : 0))
        refuse(where,
               fmt::format("'{}': {} has a stride of {} elements along '{}', but it must be at least {}",
                           subscripts, kNames[t], mode.place.*kStride[t], mode.letters, t == kD ? 1 : 0));
  }
  check_apart_in_d(subscripts, modes, where);
  const Former former(modes, tensors);
  std::optional<Form> best;
  bool exchanged = false;
  std::array<std::string, 3> reasons;
  std::string refusal;
  for (const bool exchange : {false, true})
    for (unsigned mask = 0; mask < 8; ++mask) {
      const std::array<bool, 3> copied = {is_zero || (mask & 1) != 0, is_zero || (mask & 2) != 0,
                                          (mask & 4) != 0};
      if (is_zero && (mask & 3) != 0) continue;
      Form one = former.form(exchange, copied);
      if (one.refusal.empty() && is_zero &&
          (one.axes.m.size() > 1 || one.axes.n.size() > 1 || one.axes.batch.size() > 1))
        one.refusal = "D: modes that do not fold, where no operand counts";
      if (!one.refusal.empty()) {
        refusal = one.refusal;
        const size_t t =
            one.refusal[1] == ':' ? static_cast<size_t>(std::string("ABD").find(one.refusal[0])) : 3;
        if (t < 3 && reasons[t].empty()) reasons[t] = one.refusal.substr(3);
        continue;
      }
      if (!best || one.microseconds < best->microseconds) best = one, exchanged = exchange;
    }
  if (!best) refuse(where, fmt::format("'{}': {}", subscripts, refusal));
  Form& f = *best;
  form.exchanged = exchanged;
  const size_t a = exchanged ? kB : kA, b = exchanged ? kA : kB;
  const auto copy = [&](size_t t, Modes& along, Modes& rows) {
    if (!f.copied[t]) return;
    if (is_zero && t != kD) return;
    form.copies.push_back(laid_out(f.axes, modes, t, along, rows, size_of(tensors[t].type)));
    form.copies.back().reason = reasons[t].empty() ? "its modes fold then, or fill tiles" : reasons[t];
  };
  copy(a, f.axes.k, f.axes.m);
  copy(b, f.axes.k, f.axes.n);
  copy(kD, f.axes.n, f.axes.m);
  form.a_k_major = f.a_k_major, form.b_k_major = f.b_k_major;
  form.modes.m_box = f.m_box, form.modes.n_box = f.n_box, form.modes.k_box = f.k_box;
  for (const auto& [from, to] : {std::pair{&f.axes.m, &form.modes.m},
                                 {&f.axes.n, &form.modes.n},
                                 {&f.axes.k, &form.modes.k},
                                 {&f.axes.batch, &form.modes.batch}})
    for (const Mode& mode : *from) {
      ProductMode place = mode.place;
      if (exchanged) std::swap(place.a, place.b);
      to->add(place);
    }
  if (is_zero) form.modes.k = {}, form.modes.k.add({0}), form.modes.k_box = 0;
  form.modes.number = next_number_of_calls();
  form.text = fmt::format("{}, {}, {}, {}{}", axis_text("m", f.axes.m, f.m_box),
                          axis_text("n", f.axes.n, f.n_box), axis_text("k", f.axes.k, f.k_box),
                          axis_text("batches", f.axes.batch, 0), exchanged ? ", with A and B exchanged" : "");
  for (const ContractionCopy& one : form.copies)
    form.text += fmt::format("; {} is copied: {}", kNames[static_cast<size_t>(one.operand)], one.reason);
  return form;
}

}  // namespace ptxbuilder::kernels
