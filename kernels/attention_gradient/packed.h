// Locates the rows of packed sequences in the kernels of attention's backward pass, and stores the results
// for these rows.
#pragma once

#include "kernels/attention_gradient/config.h"
#include "ptxbuilder/registers/memory.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {

inline void add_sequences(Parameters& p) {
  using enum Parameter::Kind;
  p.add("batches", scalar, DType::u32, "sequences");
  p.add("query_rows", scalar, DType::u32, "rows of a head of Q, of all sequences");
  p.add("query_offsets", pointer, DType::u32, "where each sequence begins in Q, and where the last ends");
}

// Declares the sizes for a kernel that processes rows of queries.
inline void add_sizes(Parameters& p, const AttentionGradientOperation& o) {
  using enum Parameter::Kind;
  p.add("queries", scalar, DType::u32,
        o.packed ? "rows of a head of the longest sequence" : "rows of a head");
  p.add("heads", scalar, DType::u32, "heads of a batch");
  if (o.packed)
    add_sequences(p);
  else
    p.add("batches", scalar, DType::u32, "batches of each tensor");
}

// The queries of a sequence. In the arrays that the kernels share, a sequence is padded to whole blocks of
// queries. To keep sequences from overlapping, the position of a sequence allows for one additional block in
// each earlier sequence.
struct PackedQueries {
  PackedQueries(const AttentionGradientTile& t, const Parameters& p, u32 sequence)
      : row(p.get<gptr<u32>>("query_offsets")[sequence]),
        queries(u32(p.get<gptr<u32>>("query_offsets")[sequence + 1]) - row),
        first_block(row / t.bm + sequence),
        blocks(p.get<u32>("query_rows") / t.bm + p.get<u32>("batches")) {}

  u32 row, queries;         // first row of the sequence in Q; number of its rows
  u32 first_block, blocks;  // first block of the sequence; number of blocks per head
};
inline int64_t packed_blocks(const AttentionGradientTile& t, int64_t query_rows, int64_t sequences) {
  return query_rows / t.bm + sequences;
}

// Stores rows of a head one by one. `row` is the first row, and `end` is the end of the sequence.
struct PackedHeads {
  u32 head, row, end;

  static void add(Parameters& p, const AttentionGradientOperation& o, const std::string& name,
                  const std::string& meaning) {
    using enum Parameter::Kind;
    p.add(name, pointer, o.type, meaning);
    p.add(name + "_columns", scalar, DType::u32, "columns of " + name + ", a multiple of 8");
    p.add(name + "_row_stride", scalar, DType::u64, "elements from a row to the next, a multiple of 8");
    p.add(name + "_head_stride", scalar, DType::u64, "elements from a head to the next, a multiple of 8");
  }
  // Stores a tile, beginning at column `column`. Rows at `end` and above are skipped.
  template <class T>
  void store(const Parameters& p, const std::string& name, const RegisterTile<T>& x, u32 column = 0) const {
    const auto of = [&](const char* what) { return name + what; };
    const GlobalTensor to = GlobalTensor(p.get<gptr<T>>(name), {head + 1, end, p.get<u32>(of("_columns"))},
                                         {p.get<u64>(of("_head_stride")), p.get<u64>(of("_row_stride")), 1})
                                .multiples_of(8);
    ptxbuilder::store(to(head, _, _).tile(row, column), x);
  }
};

}  // namespace ptxbuilder::kernels
