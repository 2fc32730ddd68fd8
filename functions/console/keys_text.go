package console

import "fmt"

// grouped writes a count with its thousands parted: "1,234,567".
func grouped[N int64 | uint64](n N) string {
	digits := fmt.Sprint(n)
	out := make([]byte, 0, len(digits)+len(digits)/3)
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out = append(out, ',')
		}
		out = append(out, digits[i])
	}
	return string(out)
}
