package bench

import (
	"math"
	"testing"
)

// interval returns the geometric mean of at least nine ratios, and Student's t interval (95%)
// of their logarithms.
func interval(ratios []float64) (mean, low, high float64) {
	n := float64(len(ratios))
	var sum, squares float64
	for _, r := range ratios {
		sum += math.Log(r)
	}
	for _, r := range ratios {
		squares += math.Pow(math.Log(r)-sum/n, 2)
	}
	half := student(n-1) * math.Sqrt(squares/(n-1)/n)
	return math.Exp(sum / n), math.Exp(sum/n - half), math.Exp(sum/n + half)
}

// student returns the 97.5% quantile of Student's t distribution by the Cornish-Fisher
// expansion (Abramowitz and Stegun, 26.7.5). Its error is below 0.001 from 8 degrees of
// freedom.
func student(degrees float64) float64 {
	const z = 1.959963984540054 // quantile of the normal distribution
	z2, d2 := z*z, degrees*degrees
	return z * (1 + (z2+1)/(4*degrees) +
		((5*z2+16)*z2+3)/(96*d2) +
		(((3*z2+19)*z2+17)*z2-15)/(384*d2*degrees) +
		((((79*z2+776)*z2+1482)*z2-1920)*z2-945)/(92160*d2*d2))
}

func TestStudent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ degrees, want float64 }{
		{8, 2.306004}, {9, 2.262157}, {10, 2.228139}, {14, 2.144787}, {19, 2.093024}, {30, 2.042272}, {60, 2.000298}, {120, 1.979930},
	} {
		if got := student(c.degrees); math.Abs(got-c.want) > 0.001 {
			t.Errorf("%g degrees: got %g, want %g", c.degrees, got, c.want)
		}
	}
}

func TestInterval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		ratios          []float64
		mean, low, high float64
	}{
		{"same", []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}, 1, 1, 1},
		// Logarithms: five of +ln 2, four of -ln 2; mean ln 2/9, standard error 0.243547.
		{"mixed", []float64{2, 0.5, 2, 0.5, 2, 0.5, 2, 0.5, 2}, 1.080060, 0.615941, 1.893898},
		{"slower", []float64{0.9, 0.92, 0.88, 0.9, 0.91, 0.89, 0.9, 0.9, 0.9, 0.9}, 0.899944, 0.892435, 0.907518},
	} {
		mean, low, high := interval(c.ratios)
		for _, v := range []struct{ got, want float64 }{{mean, c.mean}, {low, c.low}, {high, c.high}} {
			if math.Abs(v.got-v.want) > 0.001 {
				t.Errorf("%s: got %f (%f to %f), want %f (%f to %f)", c.name, mean, low, high, c.mean, c.low, c.high)
				break
			}
		}
	}
}
