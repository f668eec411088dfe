-- question: What share of first tokens comes within half a second, told by a histogram?
-- asked by: sre
-- tolerance: share 3%
WITH h AS (SELECT exph(ttft_s) AS h FROM ttft WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND measured_at = 'server')
SELECT exph_rank(h, 0.5) AS share, exph_error(h) AS within FROM h
