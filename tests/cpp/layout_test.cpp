// SPDX-License-Identifier: Apache-2.0
#include "exchange/layout.h"

#include <arrow/type.h>

#include "check.h"

namespace flightshmem {
namespace {

Counts TwoSourcesOfText(int64_t bytes_each) {
  Counts counts(2, 2, 1);
  for (int source : {0, 1}) {
    counts.rows(source, 1) = 10;
    counts.text_bytes(source, 1, 0) = bytes_each;
  }
  return counts;
}

FS_TEST(TextBeyond32BitOffsetsNamesColumnAndPe) {
  const auto narrow = arrow::schema({arrow::field("note", arrow::utf8())});
  const auto shapes = ShapesOf(*narrow).ValueOrDie();
  CHECK_OK(CheckTextFits(*narrow, shapes, TwoSourcesOfText((int64_t{1} << 30) - 1)));
  const arrow::Status full = CheckTextFits(*narrow, shapes, TwoSourcesOfText(int64_t{1} << 30));
  CHECK(full.IsCapacityError());
  CHECK(full.message() ==
        "[exchange] column 'note' would hold more text than 32-bit offsets reach, got 2147483648 "
        "bytes, PE 1/2: cast it to large_string");
  const auto wide = arrow::schema({arrow::field("note", arrow::large_utf8())});
  CHECK_OK(CheckTextFits(*wide, ShapesOf(*wide).ValueOrDie(), TwoSourcesOfText(int64_t{1} << 30)));
}

FS_TEST(PiecesOfAllSourcesTileTheColumn) {
  const auto schema = arrow::schema({arrow::field("note", arrow::utf8())});
  const auto shapes = ShapesOf(*schema).ValueOrDie();
  Counts counts = TwoSourcesOfText(25);
  counts.nulls(1, 1, 0) = 3;
  const ShardLayout layout = LayOutShard(shapes, counts, 1, 256);
  const ColumnPlace& place = layout.columns[0];
  CHECK(layout.rows == 20 && place.nulls == 3);
  CHECK(place.validity.offset == 256 && place.validity.bytes == 3);
  CHECK(place.values.offset == 320 && place.values.bytes == 21 * 4);
  CHECK(place.text.offset == 448 && place.text.bytes == 50);
  CHECK(layout.block_bytes == 512 && layout.scratch_bytes == 64);
  const ColumnPiece second = PiecesOf(shapes, layout, counts, 1, 1)[0];
  CHECK(second.values.offset == 320 + 11 * 4 && second.values.bytes == 10 * 4);
  CHECK(second.text.offset == 448 + 25 && second.text.bytes == 25 && second.text_base == 25);
  CHECK(second.validity_map.offset == 10 && second.validity_map.bytes == 10);
  // Without nulls there, no validity buffer.
  CHECK(LayOutShard(shapes, TwoSourcesOfText(25), 1, 256).columns[0].validity.bytes == 0);
}

}  // namespace
}  // namespace flightshmem
