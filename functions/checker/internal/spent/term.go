package spent

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/usage"
)

func words(t usage.QuotaPeriod) (prefix, term int64, ok bool) {
	period := slices.Index(plan.Periods(), t.Period)
	if !apikey.ValidPrefix(string(t.Prefix)) || period < 0 {
		return 0, 0, false
	}
	prefix = int64(binary.NativeEndian.Uint64([]byte(t.Prefix)))    //nolint:gosec // a word
	return prefix, int64(period)<<32 | int64(uint32(t.First)), true //nolint:gosec // the bits of a day
}

func termOf(prefix, term int64) (t usage.QuotaPeriod, ok bool) {
	period := term >> 32
	if period < 0 || period >= int64(len(plan.Periods())) {
		return usage.QuotaPeriod{}, false
	}
	text := binary.NativeEndian.AppendUint64(nil, uint64(prefix))                                                     //nolint:gosec // a word
	t = usage.QuotaPeriod{Prefix: apikey.Prefix(text), Period: plan.Periods()[period], First: usage.Day(int32(term))} //nolint:gosec // the low half
	return t, apikey.ValidPrefix(string(text)) && usage.QuotaPeriodAt(t.Prefix, t.Period, t.First.Start()) == t
}

func checksum(prefix, term int64) int64 {
	b := binary.NativeEndian.AppendUint64(nil, uint64(prefix)) //nolint:gosec // a word
	b = binary.NativeEndian.AppendUint64(b, uint64(term))      //nolint:gosec // a word
	return int64(crc32.ChecksumIEEE(b))
}
