package window

// Boundless is the N of a limit that no client reaches. The verdict on a cost of 0 under
// such a limit tells how many units count; see [Verdict.Units].
const Boundless = 1 << 62

// Units returns how many units count by the verdict on a cost of 0 under a Boundless
// limit.
func (v Verdict) Units() int64 { return Boundless - v.Remaining }
