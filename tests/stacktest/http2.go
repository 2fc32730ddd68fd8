package stacktest

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sluicegate/sluice/tests/check"
)

// SpeakHTTP2 sends one HTTP/2 request with exactly these fields over a new connection. The
// status is 0 if the server rejects the protocol.
func SpeakHTTP2(t testing.TB, conn net.Conn, fields [][2]string, body []byte) Answer {
	t.Helper()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, field := range fields {
		check.OK(t, e.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	if err := f.WriteSettings(); err != nil {
		return Answer{}
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: body == nil}); err != nil {
		return Answer{}
	}
	if body != nil {
		if err := f.WriteData(1, true, body); err != nil {
			return Answer{}
		}
	}
	var a Answer
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return a
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			a.Status, _ = strconv.Atoi(frame.PseudoValue("status"))
			if frame.StreamEnded() {
				return a
			}
		case *http2.DataFrame:
			a.Body += string(frame.Data())
			if frame.StreamEnded() {
				return a
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return a
		}
	}
}
