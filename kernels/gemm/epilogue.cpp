#include "kernels/gemm/epilogue.h"

#include "kernels/gemm/mode_axis.h"
#include "kernels/gemm/ragged_rows.h"
#include "ptxbuilder/isa/hopper.h"
#include "ptxbuilder/product/epilogue.h"
#include "ptxbuilder/tile/profile.h"

namespace ptxbuilder::kernels {
namespace {

RegisterTile<f32> none(const RegisterTile<f32>& x) { return x; }
RegisterTile<f32> none_slope(const RegisterTile<f32>& x) { return RegisterTile<f32>(1, x.layout()); }

// The functions that compute an activation and its slope, in the order of Activation.
struct ActivationTiles {
  RegisterTile<f32> (*value)(const RegisterTile<f32>&);
  RegisterTile<f32> (*slope)(const RegisterTile<f32>&);
};
constexpr ActivationTiles kActivations[] = {
#define PTXBUILDER_ACTIVATION(word, ...) {word, word##_slope},
#include "kernels/gemm/activation.def"
#undef PTXBUILDER_ACTIVATION
};

// The steps of a product's epilogue, which are applied to panels. C, bias and inputs have the type T.
template <class T>
class PanelEpilogue {
 public:
  PanelEpilogue(const GemmOperation& o, const GemmParameters& p, const PanelPlace& at,
                const std::optional<u32>& rows)
      : o_(o),
        activation_(kActivations[static_cast<size_t>(o.activation)]),
        p_(p),
        at_(at),
        m_(p.get<u32>("M")),
        n_(p.get<u32>("N")),
        rows_(rows.value_or(m_)) {}

  RegisterTile<f32> scaled(RegisterTile<f32> x) const {
    if (o_.alpha) x = x * p_.get<f32>("alpha");
    return multiplied(OperandRole::factor, x);
  }
  RegisterTile<f32> with_addends(RegisterTile<f32> x) const {
    each(OperandRole::residual, [&](const ProductOperandRow& row) {
      x = add_residual(x, matrix(row), place(), p_.get<f32>("beta"));
    });
    each(OperandRole::addend, [&](const ProductOperandRow& row) { x = with_elements<Add>(x, row); });
    return x;
  }
  RegisterTile<f32> activated(const RegisterTile<f32>& x) const {
    if (o_.gates()) return activation_.value(even_columns(x)) * odd_columns(x);
    RegisterTile<f32> y = x;
    if (!o_.has_slope()) return activation_.value(x);
    each(OperandRole::inputs, [&](const ProductOperandRow& row) {
      y = x * activation_.slope(of_elements(matrix(row), x.layout(), place()));
    });
    return y;
  }
  RegisterTile<f32> measured(RegisterTile<f32> y) const {
    each(OperandRole::greatest, [&](const ProductOperandRow& row) {
      const u32 columns = o_.gates() ? n_ / 2 : n_;
      PanelPlace of_output = at_;
      if (o_.gates()) of_output.col = at_.col / 2;
      y = amax(y, p_.get<gptr<f32>>(row.shown), rows_, columns, of_output);
    });
    return y;
  }
  RegisterTile<f32> rescaled(const RegisterTile<f32>& y) const {
    return multiplied(OperandRole::result_factor, y);
  }

 private:
  enum Operator { Multiply, Add };

  template <class Work>
  void each(OperandRole role, Work&& work) const {
    for (const ProductOperandRow& row : product_operands)
      if (row.role == role && o_.has(row.operand)) work(row);
  }
  RegisterTile<f32> multiplied(OperandRole role, RegisterTile<f32> x) const {
    each(role, [&](const ProductOperandRow& row) { x = with_elements<Multiply>(x, row); });
    return x;
  }
  // Combines each row (or column) of x with the operand's element for this row (or column).
  template <Operator by>
  RegisterTile<f32> with_elements(const RegisterTile<f32>& x, const ProductOperandRow& row) const {
    return row.type == OperandType::f32 ? with_elements<by, f32>(x, row) : with_elements<by, T>(x, row);
  }
  template <Operator by, class Element>
  RegisterTile<f32> with_elements(const RegisterTile<f32>& x, const ProductOperandRow& row) const {
    auto with = [&](const auto& y) { return by == Add ? x + y : x * y; };
    const gptr<Element> all = p_.get<gptr<Element>>(row.shown);
    switch (row.shape) {
      case OperandShape::one:
        if constexpr (std::same_as<Element, f32>) return with(f32(all[0]));
        break;
      case OperandShape::rows:
        return with(
            of_rows(o_.grouped_rows() ? GlobalTensor(all, {m_}) : of_batch(all, m_), x.layout(), at_));
      case OperandShape::columns:
        return with(of_columns(of_batch(all, n_), x.layout(), at_));
      case OperandShape::columns_of_all:
        return with(
            of_columns(o_.grouped_rows() ? of_batch(all, n_) : GlobalTensor(all, {n_}), x.layout(), at_));
      case OperandShape::elements:
        return with(of_elements(matrix(row), x.layout(), place()));
      case OperandShape::groups:
      case OperandShape::rows_by_k:
      case OperandShape::columns_by_k:
      case OperandShape::blocks:
      case OperandShape::row_blocks:
      case OperandShape::column_blocks:
        break;
    }
    return x;
  }
  PanelPlace place() const {
    PanelPlace place = at_;
    if (!place.batch || o_.grouped_rows()) place.batch = 0;
    return place;
  }
  // Returns the elements of a batch; the batches are contiguous. Rows outside all groups have no elements.
  template <class Element>
  GlobalTensor<Element, 1> of_batch(const gptr<Element>& all, u32 extent) const {
    if (o_.grouped_rows()) {
      const pred exists = *at_.batch < p_.get<u32>("groups");
      return GlobalTensor(all + select(exists, *at_.batch, u32(0)) * extent,
                          {select(exists, extent, u32(0))});
    }
    return GlobalTensor(at_.batch ? all + *at_.batch * extent : all, {extent});
  }
  GlobalTensor<T, 3> matrix(const ProductOperandRow& row) const {
    const u32 rows_apart = p_.get<u32>(GemmParameters::stride_of(row));
    return GlobalTensor(p_.get<gptr<T>>(row.shown), {1, rows_, n_},
                        {u64(m_) * u64(rows_apart), rows_apart, 1});
  }

  const GemmOperation& o_;
  const ActivationTiles& activation_;
  const GemmParameters& p_;
  const PanelPlace& at_;
  u32 m_, n_, rows_;
};

}  // namespace

template <class T>
GemmEpilogue::RowsEpilogue GemmEpilogue::rows_epilogue(const GemmOperation& o, const GemmParameters& p,
                                                       const UserEpilogue& user) {
  return
      [&o, &p, &user](const RegisterTile<f32>& sums, const PanelPlace& at, const std::optional<u32>& rows) {
        const PanelEpilogue<T> panel(o, p, at, rows);
        RegisterTile<f32> x = panel.with_addends(panel.scaled(sums));
        if (o.user_epilogue) x = user.function(x, at, p);
        return panel.rescaled(panel.measured(panel.activated(x)));
      };
}

// Returns the function that transforms a panel's sums, or null if sums are stored unchanged.
GemmEpilogue::RowsEpilogue GemmEpilogue::rows_epilogue(const GemmOperation& o, const GemmParameters& p,
                                                       const UserEpilogue& user) {
  if (!o.has_epilogue()) return nullptr;
  switch (o.addend()) {
    case DType::f16:
      return rows_epilogue<f16>(o, p, user);
    case DType::bf16:
      return rows_epilogue<bf16>(o, p, user);
    default:
      return rows_epilogue<f32>(o, p, user);
  }
}

GemmEpilogue::GemmEpilogue(const GemmOperation& o, const TilePlan& t, const GemmParameters& p,
                           const UserEpilogue& user, const std::optional<ClusterSum>& cluster,
                           const StagedOperand& x)
    : type_(o.d),
      grouped_rows_(o.grouped_rows()),
      m_(p.get<u32>("M")),
      cluster_(cluster),
      x_(x),
      options_{.transposed = t.swapped,
               .buffers = t.staging_buffers,
               .columns = t.panel_columns,
               .repeats = t.stores_twice,
               .pairs = o.gates()},
      epilogue_(rows_epilogue(o, p, user)) {
  const TileExtent tile = {t.warpgroup_rows(), columns_of_part(t)};
  if (o.batched || o.has_groups() || o.scatters()) options_.batch = u32(0);
  if (o.scatters()) {
    options_.scattered = {p.get<gmem>("D"),
                          p.get<u32>("rows_of_d"),
                          column(p.get<u32>("N")),
                          p.get<u32>("ldd"),
                          p.get<gptr<s32>>(o.add_to_rows ? "add_to_rows" : "d_rows"),
                          o.add_to_rows};
  } else {
    output_ = p.get<TensorMap>("D");
    if (o.grouped_rows()) options_.outer = {kRowsEnd};
    if (o.d_has_modes())
      options_.places = {[axes = ModeAxes(o, t, p)](u32 row, u32 column, const std::optional<u32>& batch) {
                           return axes.of_d(row, column, batch);
                         },
                         // a panel has 64 rows of the tile
                         o.m_box == 0 ? 0 : std::min<int>(o.m_box, hopper::wgmma_rows)};
  }
  if (o.d_by_threads) {
    const u32 columns = column(p.get<u32>("N"));
    options_.threads = {p.get<gmem>("d_memory"), p.get<u32>("M"), columns, p.get<u32>("ldd"),
                        p.get<u32>("d_by_tma")};
  }
  if (t.split_last > 1 || o.scatters()) panels_.emplace(type_, output_, tile, options_);
  if (t.split_last > 1)
    global_.emplace(tile.rows, tile.cols, panels_->panel_columns(), t.consumers, t.split_last,
                    t.cluster_m * t.cluster_n, p.get<gptr<f32>>("workspace"));
  if (t.defers_store && panels_)
    deferred_.emplace(*panels_);
  else if (t.defers_store)
    deferred_.emplace(type_, *output_, tile, options_);
}

// Converts a column of the product into a column of the output.
u32 GemmEpilogue::column(u32 of_product) const { return options_.pairs ? of_product / 2 : of_product; }

GemmEpilogue::Place GemmEpilogue::place(const Work& work, u32 row, u32 first_column) const {
  Place place = {work.x + row, column(work.y + first_column), work.batch};
  if (options_.scattered) {
    place.batch = work.group ? work.group->end : m_;
    return place;
  }
  if (!grouped_rows_) return place;
  u32& of_rows = options_.transposed ? place.y : place.x;
  of_rows = row_up_to(of_rows, work.group->end);
  place.batch = work.group->end;
  return place;
}

Epilogue GemmEpilogue::epilogue(const Work& work) const {
  if (!epilogue_) return nullptr;
  return [this, work](const RegisterTile<f32>& sums, const PanelPlace& at) {
    if (!grouped_rows_ && !options_.scattered) return epilogue_(sums, at, std::nullopt);
    PanelPlace of_group = at;
    of_group.batch = work.batch;
    if (!grouped_rows_) return epilogue_(sums, of_group, std::nullopt);
    u32& row = at.transposed ? of_group.col : of_group.row;
    if (!options_.scattered) row = row - (u32(kRowsEnd) - work.group->end);
    return epilogue_(sums, of_group, work.group->end);
  };
}

void GemmEpilogue::store(Accumulator& sums, const Work& work, u32 row) {
  if (cluster_) return store_sums(cluster_->add(sums, x_.tile[0].address()), work, row);
  if (!global_) return store_sums(sums, work, row);
  if_(
      work.parts->count == 1, [&] { store_sums(sums, work, row); }, [&] { store_parts(sums, work, row); });
}

void GemmEpilogue::store_sums(const StoreSource& sums, const Work& work, u32 row) {
  const Place at = place(work, row, cluster_ ? cluster_->first_column() : u32(0));
  if (deferred_) return deferred_->take(sums, at.x, at.y, epilogue(work), at.batch);
  if (panels_) return panels_->store(sums, at.x, at.y, epilogue(work), at.batch);
  StoreOptions options = options_;
  options.batch = at.batch;
  ptxbuilder::store(type_, *output_, sums, at.x, at.y, epilogue(work), options);
}

void GemmEpilogue::store_parts(Accumulator& sums, const Work& work, u32 row) {
  region("give", [&] { global_->give(sums, *work.parts); });
  global_->complete(*work.parts, [&](u32 panel, const RegisterTile<f32>& sum) {
    const Place at = place(work, row, 0);
    panels_->store_panel(panel, sum, at.x, at.y, epilogue(work), at.batch);
  });
  if (deferred_) deferred_->skip();
}

void GemmEpilogue::finish() {
  if (deferred_) deferred_->finish();
}

}  // namespace ptxbuilder::kernels
