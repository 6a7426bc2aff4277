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

FS_TEST(TextBeyond32BitOffsetsGetsWideOnes) {
  const auto narrow = arrow::schema({arrow::field("note", arrow::utf8())});
  auto shapes = ShapesOf(*narrow).ValueOrDie();
  const auto same =
      WidenLongText(narrow, TwoSourcesOfText((int64_t{1} << 30) - 1), kMaxShortText, &shapes);
  CHECK(same->Equals(*narrow) && shapes[0].width == 4);
  const auto wide =
      WidenLongText(narrow, TwoSourcesOfText(int64_t{1} << 30), kMaxShortText, &shapes);
  CHECK(wide->Equals(*arrow::schema({arrow::field("note", arrow::large_utf8())})));
  CHECK(shapes[0].width == 8 && shapes[0].source_width == 4);
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
  CHECK(layout.block_bytes == 512);
  const ColumnPiece second = PiecesOf(shapes, layout, counts, 1, 1)[0];
  CHECK(second.values.offset == 320 + 11 * 4 && second.values.bytes == 10 * 4);
  CHECK(second.text.offset == 448 + 25 && second.text.bytes == 25 && second.text_base == 25);
  CHECK(second.validity.offset == 256 && second.validity.begin == 10);
  CHECK(second.validity.count == 10);
  // Without nulls there, no validity buffer.
  CHECK(LayOutShard(shapes, TwoSourcesOfText(25), 1, 256).columns[0].validity.bytes == 0);
}

FS_TEST(OnlyWholeWordsBelongToAPieceAlone) {
  CHECK(OwnWords({256, 10, 20}).bytes == 0);
  CHECK(OwnWords({256, 10, 100}).bytes == 0);
  const Region words = OwnWords({256, 10, 200});
  CHECK(words.offset == 256 + 8 && words.bytes == 16);
  CHECK(OwnWords({256, 64, 64}).offset == 264 && OwnWords({256, 64, 64}).bytes == 8);
  CHECK(OwnWords({0, 64, 64}).bytes == 0);
}

}  // namespace
}  // namespace flightshmem
