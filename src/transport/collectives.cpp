// SPDX-License-Identifier: Apache-2.0
//
// The collectives of every provider, over Get and Barrier alone. A payload travels in pieces
// through the scratch in the reserved bytes: each PE lays its piece into its own scratch, a
// barrier, each PE gets what it wants from the others' scratch. The two halves are for even and odd
// barriers: a half is written again only after the barrier that follows its own, when everybody has
// read it.
#include <algorithm>
#include <cstring>
#include <string>

#include "transport/fold.h"
#include "transport/reserved_area.h"
#include "transport/transport.h"

namespace flightshmem {
namespace {

// Precedes every piece, so that PEs that are in different calls, or disagree about the size, get an
// error instead of each other's bytes. They stay in step all the same: barriers pair up by count.
struct PieceHeader {
  char call[16];
  uint64_t call_bytes;  // the size argument of the whole call
  uint64_t barrier;     // which one lets the others read; an older piece has an older number
  bool operator==(const PieceHeader&) const = default;
};

constexpr uint64_t kPieceBytes = kScratchHalfBytes - sizeof(PieceHeader);

// A reduction of so few bytes takes less time than a second barrier.
constexpr uint64_t kFoldedByAll = 16 << 10;

}  // namespace

class Transport::Pieces {
 public:
  Pieces(Transport* transport, std::string_view call, uint64_t call_bytes)
      : transport_(transport), header_{{}, call_bytes, 0} {
    call.copy(header_.call, sizeof(header_.call) - 1);
  }

  // Where this PE may write its next piece, kPieceBytes at most.
  std::byte* Begin() {
    header_.barrier = transport_->barriers_ + 1;
    half_ = kScratchOffset + (header_.barrier % 2) * kScratchHalfBytes;
    std::byte* mine = transport_->peer(transport_->my_pe()) + half_;
    std::memcpy(mine, &header_, sizeof(header_));
    return mine + sizeof(header_);
  }
  // Collective: from here on the pieces of all PEs can be read.
  arrow::Status Exchange() { return transport_->Barrier(); }

  // Copies out of `pe`'s piece.
  arrow::Status Read(int pe, uint64_t begin, std::byte* out, uint64_t size) {
    PieceHeader theirs;
    ARROW_RETURN_NOT_OK(transport_->Get(&theirs, {pe, half_}, sizeof(theirs)));
    if (theirs != header_) {
      return Disagreement(pe, theirs);
    }
    return transport_->Get(out, {pe, half_ + sizeof(PieceHeader) + begin}, size);
  }
  // The same bytes where they lie, or in `room` when they cannot be read there.
  arrow::Result<const std::byte*> Look(int pe, uint64_t begin, std::byte* room, uint64_t size) {
    const std::byte* segment = transport_->peer(pe);
    const bool is_here = segment != nullptr;
    ARROW_RETURN_NOT_OK(Read(pe, begin, room, is_here ? 0 : size));
    return is_here ? segment + half_ + sizeof(PieceHeader) + begin : room;
  }

 private:
  arrow::Status Disagreement(int pe, const PieceHeader& theirs) const {
    std::string other = "barrier";  // which leaves no piece
    if (theirs.barrier == header_.barrier) {
      other = std::string(theirs.call) + " of " + std::to_string(theirs.call_bytes) + " bytes";
    }
    return arrow::Status::Invalid(
        "[", header_.call, "] PEs disagree: this one is in ", header_.call, " of ",
        header_.call_bytes, " bytes, PE ", pe, " in ", other, ", PE ", transport_->my_pe(), "/",
        transport_->n_pes(), ": all PEs must make the same collective calls with equal sizes");
  }

  Transport* transport_;
  PieceHeader header_;
  uint64_t half_ = 0;
};

arrow::Status Transport::Broadcast(std::span<std::byte> bytes, int root) {
  ARROW_RETURN_NOT_OK(CheckRange("broadcast", {root, 0}, 0));
  Pieces pieces(this, "broadcast", bytes.size());
  size_t done = 0;
  do {
    const size_t size = std::min(bytes.size() - done, kPieceBytes);
    std::byte* scratch = pieces.Begin();
    if (my_pe() == root && size > 0) std::memcpy(scratch, bytes.data() + done, size);
    ARROW_RETURN_NOT_OK(pieces.Exchange());
    if (my_pe() != root) ARROW_RETURN_NOT_OK(pieces.Read(root, 0, bytes.data() + done, size));
    done += size;
  } while (done < bytes.size());
  return arrow::Status::OK();
}

arrow::Status Transport::AllGather(std::span<const std::byte> mine, std::span<std::byte> out) {
  if (out.size() != mine.size() * n_pes()) {
    return arrow::Status::Invalid("[allgather] needs room for ", mine.size() * n_pes(),
                                  " bytes, got ", out.size());
  }
  Pieces pieces(this, "allgather", mine.size());
  size_t done = 0;
  do {
    const size_t size = std::min(mine.size() - done, kPieceBytes);
    std::byte* scratch = pieces.Begin();
    if (size > 0) std::memcpy(scratch, mine.data() + done, size);
    ARROW_RETURN_NOT_OK(pieces.Exchange());
    for (int pe = 0; pe < n_pes(); ++pe) {
      ARROW_RETURN_NOT_OK(pieces.Read(pe, 0, out.data() + pe * mine.size() + done, size));
    }
    done += size;
  } while (done < mine.size());
  return arrow::Status::OK();
}

arrow::Result<std::vector<std::vector<std::byte>>> Transport::AllGatherV(
    std::span<const std::byte> mine) {
  const uint64_t my_size = mine.size();
  std::vector<uint64_t> sizes(n_pes());
  ARROW_RETURN_NOT_OK(
      AllGather(std::as_bytes(std::span(&my_size, 1)), std::as_writable_bytes(std::span(sizes))));
  std::vector<std::vector<std::byte>> out(n_pes());
  for (int pe = 0; pe < n_pes(); ++pe) out[pe].resize(sizes[pe]);
  const uint64_t largest = *std::max_element(sizes.begin(), sizes.end());
  Pieces pieces(this, "allgatherv", largest);
  for (uint64_t done = 0; done < largest; done += kPieceBytes) {
    const auto piece_size = [&](uint64_t total) {
      return total <= done ? 0 : std::min(total - done, kPieceBytes);
    };
    std::byte* scratch = pieces.Begin();
    if (piece_size(my_size) > 0) {
      std::memcpy(scratch, mine.data() + done, piece_size(my_size));
    }
    ARROW_RETURN_NOT_OK(pieces.Exchange());
    for (int pe = 0; pe < n_pes(); ++pe) {
      if (piece_size(sizes[pe]) == 0) continue;
      ARROW_RETURN_NOT_OK(pieces.Read(pe, 0, out[pe].data() + done, piece_size(sizes[pe])));
    }
  }
  return out;
}

arrow::Status Transport::AllToAll(std::span<const std::byte> mine, std::span<std::byte> out) {
  if (mine.size() % n_pes() != 0 || out.size() != mine.size()) {
    return arrow::Status::Invalid("[alltoall] needs ", n_pes(),
                                  " pieces of equal size and as much room, got ", mine.size(),
                                  " and ", out.size(), " bytes, PE ", my_pe(), "/", n_pes());
  }
  const uint64_t pair_bytes = mine.size() / n_pes();
  const uint64_t slot_bytes = kPieceBytes / n_pes();
  Pieces pieces(this, "alltoall", mine.size());
  uint64_t done = 0;
  do {
    const uint64_t size = std::min(pair_bytes - done, slot_bytes);
    std::byte* scratch = pieces.Begin();
    for (int pe = 0; pe < n_pes() && size > 0; ++pe) {
      std::memcpy(scratch + pe * slot_bytes, mine.data() + pe * pair_bytes + done, size);
    }
    ARROW_RETURN_NOT_OK(pieces.Exchange());
    for (int pe = 0; pe < n_pes(); ++pe) {
      ARROW_RETURN_NOT_OK(
          pieces.Read(pe, my_pe() * slot_bytes, out.data() + pe * pair_bytes + done, size));
    }
    done += size;
  } while (done < pair_bytes);
  return arrow::Status::OK();
}

// One reduction: from PE 0 upwards for every element, so that floats come out the same everywhere
// and every time, whoever folds it.
class Transport::Reduction {
 public:
  Reduction(Transport* transport, uint64_t bytes, Fold fold, uint64_t width)
      : transport_(transport),
        pieces_(transport, "reduce", bytes),
        fold_(fold),
        width_(width),
        room_(std::min(bytes, kPieceBytes)) {}

  // Every PE folds all elements: one barrier.
  arrow::Status FoldAll(std::span<std::byte> values) {
    Show(values);
    ARROW_RETURN_NOT_OK(pieces_.Exchange());
    return FoldRange(values, 0);
  }

  // Every PE folds its part of the elements and shows the result: two barriers, but less to fold.
  arrow::Status FoldParts(std::span<std::byte> values) {
    Show(values);
    ARROW_RETURN_NOT_OK(pieces_.Exchange());
    const std::span<std::byte> mine = PartOf(transport_->my_pe(), values);
    ARROW_RETURN_NOT_OK(FoldRange(mine, static_cast<uint64_t>(mine.data() - values.data())));
    Show(mine);
    ARROW_RETURN_NOT_OK(pieces_.Exchange());
    for (int pe = 0; pe < transport_->n_pes(); ++pe) {
      const std::span<std::byte> part = PartOf(pe, values);
      if (pe == transport_->my_pe()) continue;
      ARROW_RETURN_NOT_OK(pieces_.Read(pe, 0, part.data(), part.size()));
    }
    return arrow::Status::OK();
  }

 private:
  void Show(std::span<const std::byte> bytes) {
    std::byte* scratch = pieces_.Begin();
    if (!bytes.empty()) std::memcpy(scratch, bytes.data(), bytes.size());
  }

  // `begin`: where `out` lies in the piece.
  arrow::Status FoldRange(std::span<std::byte> out, uint64_t begin) {
    ARROW_RETURN_NOT_OK(pieces_.Read(0, begin, out.data(), out.size()));
    for (int pe = 1; pe < transport_->n_pes(); ++pe) {
      ARROW_ASSIGN_OR_RAISE(const std::byte* theirs,
                            pieces_.Look(pe, begin, room_.data(), out.size()));
      fold_(out.data(), theirs, out.size() / width_);
    }
    return arrow::Status::OK();
  }

  std::span<std::byte> PartOf(int pe, std::span<std::byte> values) const {
    const uint64_t elements = values.size() / width_;
    const uint64_t n_pes = transport_->n_pes();
    const uint64_t begin = elements * pe / n_pes * width_;
    const uint64_t end = elements * (pe + 1) / n_pes * width_;
    return values.subspan(begin, end - begin);
  }

  Transport* transport_;
  Pieces pieces_;
  Fold fold_;
  uint64_t width_;
  std::vector<std::byte> room_;  // for what cannot be read where it lies
};

arrow::Status Transport::Reduce(std::span<std::byte> values, NumericType type, ReduceOp op) {
  ARROW_ASSIGN_OR_RAISE(const Fold fold, FindFold(type, op));
  const uint64_t width = WidthOf(type);
  if (values.size() % width != 0) {
    return arrow::Status::Invalid("[reduce] needs whole elements of ", width, " bytes, got ",
                                  values.size(), " bytes, PE ", my_pe(), "/", n_pes());
  }
  Reduction reduction(this, values.size(), fold, width);
  const uint64_t whole_elements = kPieceBytes / width * width;
  size_t done = 0;
  do {
    const auto piece =
        values.subspan(done, std::min<uint64_t>(values.size() - done, whole_elements));
    ARROW_RETURN_NOT_OK(piece.size() <= kFoldedByAll ? reduction.FoldAll(piece)
                                                     : reduction.FoldParts(piece));
    done += piece.size();
  } while (done < values.size());
  return arrow::Status::OK();
}

}  // namespace flightshmem
