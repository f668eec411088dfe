SELECT date_trunc('day', time) AS time, region, CAST(NULL AS VARCHAR) AS model, bill, provider, account, period, service_name,
  charge_category, currency, count(*) AS charges, sum(list_cost) AS list_cost, sum(contracted_cost) AS contracted_cost,
  sum(effective_cost) AS effective_cost, sum(billed_cost) AS billed_cost,
  sum(CASE WHEN commitment_status = 'unused' THEN effective_cost END) AS unused_cost, max(imported_at) AS imported_at
FROM billing
GROUP BY date_trunc('day', time), region, bill, provider, account, period, service_name, charge_category, currency
