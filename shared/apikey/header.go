package apikey

import "strings"

// HeaderName gives a key's display name as a header value: visible ASCII and
// inner spaces as they are, "%" itself and every other byte of its UTF-8
// percent-encoded, so that any decoder of URLs' paths gives the name back
// (decisions section 1). "Café 5%" becomes "Caf%C3%A9 5%25".
func HeaderName(name string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if c < ' ' || c > '~' || c == '%' {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
